//! What a key may sign, and when: the usages sealed with it, its creation, its expiry, its last signature.

use sealwright_crypto::usage::Usage;
use sealwright_proto::status::{Code, Fault};

use crate::clock::utc;

/// What was sealed about use and time.
pub(crate) struct Terms<'a> {
    /// Sealed usages.
    pub(crate) usages: &'a [Usage],
    /// When the component that signs was created, Unix seconds.
    pub(crate) created: i64,
    /// From then on it is not valid, Unix seconds.
    pub(crate) expires: Option<i64>,
}

impl Terms<'_> {
    /// # Errors
    /// [`Code::UsageNotAllowed`].
    pub(crate) fn allow(&self, usage: Usage) -> Result<(), Fault> {
        if self.usages.contains(&usage) {
            return Ok(());
        }
        let sealed: Vec<_> = self.usages.iter().map(|usage| usage.name()).collect();
        let message = format!("the key is for {}, not for {}", sealed.join(", "), usage.name());
        Err(Fault::new(Code::UsageNotAllowed, message))
    }

    /// `now` must not be before the key, nor before its last signature, nor after its end.
    ///
    /// # Errors
    /// [`Code::ClockBehind`], [`Code::KeyExpired`].
    pub(crate) fn allow_at(&self, now: i64, last_signature: i64) -> Result<(), Fault> {
        if now < self.created {
            let message = format!(
                "the signature would predate the key: the clock says {}, the key was created {}",
                utc(now),
                utc(self.created)
            );
            return Err(Fault::new(Code::ClockBehind, message));
        }
        if now < last_signature {
            // One signature made under a clock in the future is enough. No renewal helps: time only goes on.
            let message = format!(
                "the clock says {}, but the newest signature of the key is dated {}; the key signs again from then on. \
                 If the clock is right now, it was wrong when that signature was made: use another key until then",
                utc(now),
                utc(last_signature)
            );
            return Err(Fault::new(Code::ClockBehind, message));
        }
        match self.expires {
            Some(expires) if now >= expires => {
                let message = format!("the key expired {}; the clock says {}", utc(expires), utc(now));
                Err(Fault::new(Code::KeyExpired, message))
            }
            Some(_) | None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: Terms<'static> = Terms { usages: &[Usage::OpenPgp], created: 100, expires: Some(200) };

    #[test]
    fn a_usage_that_is_not_sealed_is_refused_by_name() {
        assert!(TERMS.allow(Usage::OpenPgp).is_ok());
        let none = Terms { usages: &[], ..TERMS };
        let fault = none.allow(Usage::OpenPgp).unwrap_err();
        assert_eq!(fault.code, Code::UsageNotAllowed);
        assert!(fault.message.contains("openpgp"));
    }

    #[test]
    fn time_is_from_creation_and_last_signature_to_before_the_end() {
        for (now, last, code) in [
            (99, 0, Some(Code::ClockBehind)),
            (100, 0, None),
            (150, 150, None),
            (150, 151, Some(Code::ClockBehind)),
            (199, 0, None),
            (200, 0, Some(Code::KeyExpired)),
        ] {
            assert_eq!(TERMS.allow_at(now, last).err().map(|fault| fault.code), code, "{now} {last}");
        }
        assert!(Terms { expires: None, ..TERMS }.allow_at(i64::MAX, 0).is_ok());
    }

    #[test]
    fn a_clock_behind_is_told_both_times() {
        let fault = TERMS.allow_at(0, 0).unwrap_err();
        assert!(fault.message.contains("1970-01-01 00:00:00 UTC"), "{}", fault.message);
        assert!(fault.message.contains("1970-01-01 00:01:40 UTC"), "{}", fault.message);
    }

    #[test]
    fn a_key_that_signed_under_a_future_clock_says_until_when_and_what_to_do() {
        let last = 1_796_047_439;
        let fault = Terms { expires: None, ..TERMS }.allow_at(1_000, last).unwrap_err();
        assert_eq!(fault.code, Code::ClockBehind);
        for text in ["1970-01-01 00:16:40 UTC", "2026-11-30 14:03:59 UTC", "use another key until then"] {
            assert!(fault.message.contains(text), "{text}: {}", fault.message);
        }
    }
}
