//! The cluster's secrets, read from where the settings say: at the start, and again when the operator asks for it.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use node::secret::{ClusterSecret, Secrets};

use crate::config::mistake::{Mistake, Wrong};
use crate::config::settings::{ClusterSettings, Placed, SecretSource};

/// The largest secret file that is read, in bytes. A larger one is not a secret but some other file.
pub const SECRET_BYTES_MAX: u64 = 4096;

/// Any user of the machine may read it.
const READABLE_BY_ALL: u32 = 0o004;

/// The secrets as they were just read.
#[derive(Debug)]
pub struct InForce {
    /// For the node.
    pub secrets: Secrets,
    /// Whether there is a second one that is accepted.
    pub accepts_another: bool,
}

/// Reads the secrets; what deserves a warning goes into `warnings`.
///
/// # Errors
///
/// What is wrong with either of them. Nothing has changed.
pub fn read(cluster: &ClusterSettings, warnings: &mut Vec<String>) -> Result<InForce, Vec<Mistake>> {
    let primary = one(&cluster.secret, warnings);
    let accept =
        cluster.accept.as_ref().filter(|source| !is_vacant(source)).map(|source| one(source, warnings)).transpose();
    match (primary, accept) {
        (Ok(primary), Ok(None)) => Ok(InForce { secrets: Secrets::new(primary), accepts_another: false }),
        (Ok(primary), Ok(Some(accept))) => {
            Ok(InForce { secrets: Secrets::new(primary).and_accept(accept), accepts_another: true })
        }
        (primary, accept) => Err([primary.err(), accept.err()].into_iter().flatten().collect()),
    }
}

/// Whether the file of the second secret is missing or empty. That is how it lies between two changes of the secret: its
/// place can be told long before it is needed, so that nothing needs a restart then.
fn is_vacant(source: &SecretSource) -> bool {
    match source {
        SecretSource::Given(_) => false,
        SecretSource::File(file) => match std::fs::metadata(&file.value) {
            Ok(found) => found.is_file() && found.len() == 0,
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        },
    }
}

/// Reads a password.
///
/// # Errors
///
/// What is wrong with it.
pub fn password(source: &SecretSource, warnings: &mut Vec<String>) -> Result<String, Mistake> {
    match source {
        SecretSource::Given(given) => Ok(given.value.clone()),
        SecretSource::File(file) => {
            let bytes = of_file(file, warnings)?;
            let text = std::str::from_utf8(without_line_end(&bytes)).ok().filter(|text| !text.is_empty());
            text.map(str::to_owned).ok_or_else(|| wrong(file, format!("{}: no text", file.value.display())))
        }
    }
}

fn one(source: &SecretSource, warnings: &mut Vec<String>) -> Result<ClusterSecret, Mistake> {
    match source {
        SecretSource::Given(given) => secret(without_line_end(given.value.as_bytes()), given),
        SecretSource::File(file) => secret(without_line_end(&of_file(file, warnings)?), file),
    }
}

fn of_file(file: &Placed<PathBuf>, warnings: &mut Vec<String>) -> Result<Vec<u8>, Mistake> {
    bytes_of(&file.value, warnings).map_err(|error| wrong(file, format!("{}: {error}", file.value.display())))
}

fn secret<T>(bytes: &[u8], said: &Placed<T>) -> Result<ClusterSecret, Mistake> {
    ClusterSecret::new(bytes).map_err(|error| wrong(said, error.to_string()))
}

fn wrong<T>(said: &Placed<T>, message: String) -> Mistake {
    Wrong::new(format!("`{}`: {message}", said.key), "").at(said.origin.clone())
}

fn bytes_of(path: &Path, warnings: &mut Vec<String>) -> std::io::Result<Vec<u8>> {
    let file = std::fs::File::open(path)?;
    let mode = file.metadata()?.permissions().mode();
    let mut bytes = Vec::new();
    file.take(SECRET_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > SECRET_BYTES_MAX {
        return Err(std::io::Error::other(format!("a secret has at most {SECRET_BYTES_MAX} bytes")));
    }
    if mode & READABLE_BY_ALL != 0 {
        warnings
            .push(format!("{}: every user of this machine can read this secret; chmod 600 ends that", path.display()));
    }
    Ok(bytes)
}

/// An editor or `echo` puts a line end there that nobody means.
fn without_line_end(bytes: &[u8]) -> &[u8] {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    bytes.strip_suffix(b"\r").unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::OpenOptionsExt as _;

    use super::*;
    use crate::config::mistake::Origin;

    fn placed(path: PathBuf) -> SecretSource {
        let key = "cluster.secret_file";
        SecretSource::File(Placed { key, value: path, origin: Origin::Default(key) })
    }

    fn write(path: &Path, mode: u32, bytes: &[u8]) {
        use std::io::Write as _;
        let mut file = std::fs::OpenOptions::new().create(true).write(true).mode(mode).open(path).unwrap();
        file.set_permissions(std::fs::Permissions::from_mode(mode)).unwrap();
        file.write_all(bytes).unwrap();
    }

    #[test]
    fn a_line_end_is_no_part_of_a_secret() {
        assert_eq!(without_line_end(b"abc\n"), b"abc");
        assert_eq!(without_line_end(b"abc\r\n"), b"abc");
        assert_eq!(without_line_end(b"abc"), b"abc");
        assert_eq!(without_line_end(b"\n\n"), b"\n");
    }

    #[test]
    fn a_secret_that_everybody_can_read_is_taken_with_a_warning() {
        let folder = tempfile::tempdir().unwrap();
        let (private, public) = (folder.path().join("private"), folder.path().join("public"));
        write(&private, 0o600, b"0123456789abcdef\n");
        write(&public, 0o644, b"0123456789abcdef\n");
        let mut warnings = Vec::new();
        one(&placed(private), &mut warnings).unwrap();
        assert_eq!(warnings, Vec::<String>::new());
        one(&placed(public), &mut warnings).unwrap();
        assert!(warnings[0].contains("public: every user of this machine"), "{warnings:?}");
    }

    #[test]
    fn the_file_of_a_second_secret_may_be_missing_or_empty_between_two_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("accept");
        assert!(is_vacant(&placed(path.clone())));
        write(&path, 0o600, b"");
        assert!(is_vacant(&placed(path.clone())));
        write(&path, 0o600, b"0123456789abcdef");
        assert!(!is_vacant(&placed(path)));
    }

    #[test]
    fn a_secret_that_is_short_missing_or_something_else_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let refused = |path: &Path| one(&placed(path.to_owned()), &mut Vec::new()).unwrap_err().wrong.message;
        assert!(refused(&path).contains("secret: No such file"), "{}", refused(&path));
        write(&path, 0o600, b"0123456789abcde\n");
        assert_eq!(refused(&path), "`cluster.secret_file`: the cluster secret has 15 bytes; at least 16 are needed");
        write(&path, 0o600, &[7; 5000]);
        assert!(refused(&path).contains("at most 4096 bytes"), "{}", refused(&path));
    }
}
