//! Signing time: read here, from the system's clock, and nowhere else.

use std::time::{SystemTime, UNIX_EPOCH};

use sealwright_proto::status::{Code, Fault};
pub(crate) use sealwright_proto::time::utc;

/// Says what time it is.
pub trait Clock: Send + Sync {
    /// Unix seconds; negative before 1970.
    fn unix_s(&self) -> i64;
}

/// The system's real-time clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn unix_s(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_secs()).unwrap_or(i64::MAX).saturating_neg(),
        }
    }
}

/// A time that OpenPGP can say: 32 bits of Unix seconds, to the year 2106 (RFC 9580 section 3.5).
///
/// # Errors
/// [`Code::ClockBehind`] before 1970; [`Code::Unsupported`] after 2106.
pub(crate) fn openpgp_time(unix_s: i64) -> Result<u32, Fault> {
    u32::try_from(unix_s).map_err(|_| {
        let code = if unix_s < 0 { Code::ClockBehind } else { Code::Unsupported };
        Fault::new(code, format!("the clock says {}; OpenPGP has no such time", utc(unix_s)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openpgp_times_end_in_2106() {
        assert_eq!(openpgp_time(4_294_967_295).unwrap(), u32::MAX);
        assert_eq!(openpgp_time(4_294_967_296).unwrap_err().code, Code::Unsupported);
        assert_eq!(openpgp_time(-1).unwrap_err().code, Code::ClockBehind);
    }

    #[test]
    fn the_system_clock_runs_after_2026() {
        assert!(SystemClock.unix_s() > 1_790_000_000);
    }
}
