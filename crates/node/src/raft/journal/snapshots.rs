//! The last snapshot: one file, replaced whole. Layout: `RFSNAP`, format byte, SHA-256 of all that follows, length of the
//! head (u32, little endian), head, state. It is written beside the old one, synced, and renamed over it, so there is
//! always one that is whole.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use bytes::{Buf as _, Bytes};
use parking_lot::Mutex;
use prost::Message as _;
use sha2::{Digest as _, Sha256};

use super::{JournalError, private_file};
use crate::raft::codec::{self, FORMAT};
use crate::raft::types::{LogId, SnapshotMeta};

const MAGIC: &[u8; 6] = b"RFSNAP";
const DIGEST_BYTES: usize = 32;
const PREFIX_BYTES: usize = MAGIC.len() + 1 + DIGEST_BYTES;

/// Where the last snapshot is kept. Calls block when that is a disk.
pub(super) struct Snapshots {
    /// Locked while one is written: the older of two must not come last.
    shelf: Mutex<Shelf>,
    path: Option<PathBuf>,
}

struct Shelf {
    place: Place,
    /// What the newest one holds, as far as this process saw it.
    newest: Option<LogId>,
}

enum Place {
    Disk(PathBuf),
    Memory(Option<(SnapshotMeta, Bytes)>),
    Closed,
}

impl Snapshots {
    pub(super) fn on_disk(path: PathBuf) -> Snapshots {
        let shelf = Shelf { place: Place::Disk(path.clone()), newest: None };
        Snapshots { shelf: Mutex::new(shelf), path: Some(path) }
    }

    pub(super) fn in_memory() -> Snapshots {
        Snapshots { shelf: Mutex::new(Shelf { place: Place::Memory(None), newest: None }), path: None }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.path.clone().unwrap_or_else(|| PathBuf::from("memory"))
    }

    /// Keeps this snapshot instead of the last one, unless the last one holds more.
    pub(super) fn save(&self, meta: SnapshotMeta, state: Bytes) -> Result<(), JournalError> {
        let mut shelf = self.shelf.lock();
        let last = meta.last_log_id;
        if last < shelf.newest {
            return Ok(());
        }
        match &mut shelf.place {
            Place::Memory(slot) => *slot = Some((meta, state)),
            Place::Disk(path) => {
                replace(path, &seal(&meta, &state)).map_err(|error| failed(path, &error.to_string()))?;
            }
            Place::Closed => return Err(JournalError::Closed),
        }
        shelf.newest = last;
        Ok(())
    }

    pub(super) fn load(&self) -> Result<Option<(SnapshotMeta, Bytes)>, JournalError> {
        let mut shelf = self.shelf.lock();
        let found = match &shelf.place {
            Place::Memory(slot) => slot.clone(),
            Place::Disk(path) => read(path)?,
            Place::Closed => return Err(JournalError::Closed),
        };
        shelf.newest = found.as_ref().and_then(|(meta, _)| meta.last_log_id);
        Ok(found)
    }

    pub(super) fn close(&self) {
        self.shelf.lock().place = Place::Closed;
    }
}

/// Makes a new or renamed file's name survive a power failure.
pub(super) fn sync_directory(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

fn seal(meta: &SnapshotMeta, state: &[u8]) -> Vec<u8> {
    let head = codec::snapshot_meta_out(meta).encode_to_vec();
    let head_len = u32::try_from(head.len()).expect("a membership is far below 4 GiB");
    let mut digest = Sha256::new();
    for part in [&head_len.to_le_bytes()[..], &head, state] {
        digest.update(part);
    }
    let mut out = Vec::with_capacity(PREFIX_BYTES + 4 + head.len() + state.len());
    out.extend_from_slice(MAGIC);
    out.push(FORMAT);
    out.extend_from_slice(&digest.finalize());
    out.extend_from_slice(&head_len.to_le_bytes());
    out.extend_from_slice(&head);
    out.extend_from_slice(state);
    out
}

fn replace(path: &Path, sealed: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("snapshot.new");
    let mut file = private_file(&beside)?;
    file.set_len(0)?;
    file.write_all(sealed)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    sync_directory(path.parent().unwrap_or(Path::new(".")))
}

fn read(path: &Path) -> Result<Option<(SnapshotMeta, Bytes)>, JournalError> {
    match fs::read(path) {
        Ok(bytes) => open(Bytes::from(bytes)).map(Some).map_err(|detail| failed(path, &detail)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(path, &error.to_string())),
    }
}

fn open(mut bytes: Bytes) -> Result<(SnapshotMeta, Bytes), String> {
    if bytes.len() < PREFIX_BYTES + 4 || !bytes.starts_with(MAGIC) {
        return Err("not a ringfence snapshot".to_owned());
    }
    bytes.advance(MAGIC.len());
    let format = bytes.get_u8();
    if format != FORMAT {
        return Err(format!("written in format {format}; this build reads {FORMAT}"));
    }
    let digest = bytes.split_to(DIGEST_BYTES);
    if digest[..] != Sha256::digest(&bytes)[..] {
        return Err("damaged: its digest does not fit".to_owned());
    }
    let head_len = usize::try_from(bytes.get_u32_le()).map_err(|error| error.to_string())?;
    if head_len > bytes.len() {
        return Err("damaged: its head is longer than itself".to_owned());
    }
    let head = wire::peer::RaftSnapshotMeta::decode(bytes.split_to(head_len)).map_err(|error| error.to_string())?;
    let meta = codec::snapshot_meta_in(head).map_err(|error| error.to_string())?;
    Ok((meta, bytes))
}

fn failed(path: &Path, detail: &str) -> JournalError {
    JournalError::Failed(format!("{}: {detail}", path.display()))
}
