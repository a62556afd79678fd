//! The only place of this crate that reads the clock. The time in a signature is the signer's, not ours.

use std::time::{SystemTime, UNIX_EPOCH};

/// Unix milliseconds; 0 for a clock before 1970.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Unix seconds.
pub(crate) fn now_s() -> i64 {
    now_ms().div_euclid(1000)
}
