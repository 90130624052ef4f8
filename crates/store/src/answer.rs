//! What the scripts answer, read. An answer that cannot be read is [`StoreError::Unknown`]: something happened there, and
//! nobody knows what.

use limits::Span;
use ownership::Epoch;
use ownership::kept::{Claimed, Incarnation, Keeper, Record, WriteAnswer};
use redis::Value;
use ring::PartitionId;
use wire::store::{FIELD_MARK, kept_from_field, session_from_text};

use crate::error::StoreError;

/// The field of a header that tells how long it was since the worst had been assumed.
const ASSUMED_FULL: &[u8] = b"a";

/// An answer that can be understood.
pub(crate) enum Understood<T> {
    Answer(T),
    /// The store takes no writes.
    Replica,
}

pub(crate) fn claimed(partition: PartitionId, answer: Value) -> Result<Understood<Claimed>, StoreError> {
    read_claimed(partition, answer).ok_or(StoreError::Unknown)
}

pub(crate) fn written(answer: Value) -> Result<WriteAnswer, StoreError> {
    read_written(answer).ok_or(StoreError::Unknown)
}

fn read_claimed(partition: PartitionId, answer: Value) -> Option<Understood<Claimed>> {
    let mut words = Words::of(answer)?;
    let status = words.text()?;
    let (run, history, previous) = (words.text()?, words.text()?, words.text()?);
    let by = || Incarnation::from_names(&run, &history).ok();
    let previous_cluster = !previous.is_empty();
    Some(Understood::Answer(match status.as_str() {
        "new" => Claimed::New { by: by()?, previous_cluster },
        "taken" => Claimed::Taken { by: by()?, record: words.record(partition)?, previous_cluster },
        "held" => Claimed::Held { by: by()? },
        "fenced" => Claimed::Fenced { keeper: words.keeper()? },
        "format" => Claimed::UnknownFormat,
        "replica" => return Some(Understood::Replica),
        _ => return None,
    }))
}

fn read_written(answer: Value) -> Option<WriteAnswer> {
    let mut words = Words::of(answer)?;
    match words.text()?.as_str() {
        "ok" => Some(WriteAnswer::Ok),
        "stale" => Some(WriteAnswer::Stale),
        "lost" => Some(WriteAnswer::Lost { keeper: words.keeper() }),
        _ => None,
    }
}

/// The items of an answer, one after the other.
struct Words(std::vec::IntoIter<Value>);

impl Words {
    fn of(answer: Value) -> Option<Words> {
        if let Value::Array(items) = answer { Some(Words(items.into_iter())) } else { None }
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        if let Value::BulkString(bytes) = self.0.next()? { Some(bytes) } else { None }
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?).ok()
    }

    fn keeper(&mut self) -> Option<Keeper> {
        let (epoch, session) = (self.text()?, self.text()?);
        Some(Keeper { epoch: Epoch(epoch.parse().ok()?), session: session_from_text(&session).ok()? })
    }

    fn record(&mut self, partition: PartitionId) -> Option<Record> {
        let keeper = self.keeper()?;
        let (count, whole) = (self.text()?.parse().ok()?, self.text()?);
        let complete = whole == "1";
        let mut record = Record { keeper, complete, count, keys: Vec::new(), assumed_full: None, unreadable: 0 };
        let mut assumed_full = None;
        let mut fields = Words::of(self.0.next()?)?;
        while let Some(name) = fields.bytes() {
            let value = fields.bytes()?;
            match kept_from_field(partition, &name, &value) {
                _ if name == ASSUMED_FULL => assumed_full = Some(assumed_full_of(&value)),
                _ if name.first() != Some(&FIELD_MARK) => {}
                Ok(kept) => record.keys.push(kept),
                Err(_) => record.unreadable += 1,
            }
        }
        // One that was only claimed never had it; one that was written always has.
        match assumed_full.unwrap_or(if complete { Err(NotASpan) } else { Ok(None) }) {
            Ok(assumed_full) => record.assumed_full = assumed_full,
            Err(NotASpan) => record.unreadable += 1,
        }
        Some(record)
    }
}

/// Not a length of time as a header holds it.
struct NotASpan;

/// Nanoseconds in decimal digits, or nothing.
fn assumed_full_of(value: &[u8]) -> Result<Option<Span>, NotASpan> {
    if value.is_empty() {
        return Ok(None);
    }
    let digits = Some(value).filter(|value| value.iter().all(u8::is_ascii_digit)).ok_or(NotASpan)?;
    let nanos = str::from_utf8(digits).ok().and_then(|text| text.parse().ok());
    nanos.map(|nanos| Some(Span::from_nanos(nanos))).ok_or(NotASpan)
}
