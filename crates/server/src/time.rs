//! Instants for people.

use jiff::Timestamp;

/// `2026-01-05T12:00:00.25Z`, for milliseconds since 1970; what no calendar reaches is told in digits.
pub fn rfc3339_of_millis(millis: u64) -> String {
    let timestamp = i64::try_from(millis).ok().and_then(|millis| Timestamp::from_millisecond(millis).ok());
    timestamp.map_or_else(|| millis.to_string(), |timestamp| timestamp.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_become_an_instant_in_utc() {
        assert_eq!(rfc3339_of_millis(1_767_225_600_250), "2026-01-01T00:00:00.25Z");
        assert_eq!(rfc3339_of_millis(u64::MAX), u64::MAX.to_string());
    }
}
