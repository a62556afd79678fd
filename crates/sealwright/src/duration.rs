//! Validity periods as people type them: `2y`, `18m`, `90d`, `never`.

/// Seconds of validity; `None` is no expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity(pub(crate) Option<u64>);

const DAY_S: u64 = 86_400;

impl std::str::FromStr for Validity {
    type Err = String;

    /// Days, weeks, months of 30 days and years of 365 days: OpenPGP counts seconds (at most 2^32-1), so
    /// calendar months would promise a precision that is not there.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "never" {
            return Ok(Self(None));
        }
        let wrong = || format!("{text:?} is not a period; write 90d, 12w, 18m, 2y or never");
        let unit = text.chars().last().ok_or_else(wrong)?;
        let days = match unit {
            'd' => 1,
            'w' => 7,
            'm' => 30,
            'y' => 365,
            _ => return Err(wrong()),
        };
        let count: u64 = text.strip_suffix(unit).and_then(|count| count.parse().ok()).ok_or_else(wrong)?;
        let seconds = count.checked_mul(days).and_then(|days| days.checked_mul(DAY_S)).ok_or_else(wrong)?;
        if seconds == 0 || seconds > u64::from(u32::MAX) {
            return Err(format!("{text:?} is outside OpenPGP's range, 1 day to 136 years"));
        }
        Ok(Self(Some(seconds)))
    }
}

/// Unix seconds as an ISO date and time in UTC.
pub(crate) fn utc(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds)
        .map_or_else(|_| format!("@{seconds}"), |time| time.strftime("%Y-%m-%d %H:%M:%SZ").to_string())
}

/// The same for programs, RFC 3339 as JSON has it: `2026-11-30T12:00:00Z`.
pub(crate) fn iso(seconds: i64) -> String {
    utc(seconds).replacen(' ', "T", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_whole_units_within_openpgp_range() {
        assert_eq!("2y".parse(), Ok(Validity(Some(730 * DAY_S))));
        assert_eq!("90d".parse(), Ok(Validity(Some(90 * DAY_S))));
        assert_eq!("never".parse(), Ok(Validity(None)));
        for bad in ["", "y", "2", "-1d", "0d", "137y", "1.5y", "99999999999999999999y", "2Y"] {
            assert!(bad.parse::<Validity>().is_err(), "{bad}");
        }
    }

    #[test]
    fn times_are_shown_in_utc() {
        assert_eq!(utc(0), "1970-01-01 00:00:00Z");
        assert_eq!(iso(0), "1970-01-01T00:00:00Z");
    }
}
