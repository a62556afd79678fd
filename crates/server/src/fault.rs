//! Errors of the store as failures on the wire: one table.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sealwright_proto::status::{Code, Fault};
use sealwright_store::Error;

/// The failure that a peer sees. Paths and what the driver says stay here, in the log of the process.
#[expect(clippy::needless_pass_by_value, reason = "it is what map_err calls")]
pub(crate) fn from_store(error: Error) -> Fault {
    let code = code(&error);
    if code == Code::StoreFailed {
        report(&error);
    }
    Fault::new(code, public_text(&error))
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "not exhaustive; what has no row here is the store's failure"
)]
const fn code(error: &Error) -> Code {
    match error {
        Error::Ambiguous { .. } | Error::UnknownKey => Code::KeyNotFound,
        Error::NameTaken { .. } => Code::KeyExists,
        Error::FingerprintTaken { .. } => Code::KeyHereAlready,
        Error::GenerationChanged { .. } => Code::KeyChanged,
        Error::TooLarge { .. } => Code::LimitExceeded,
        Error::Busy | Error::Overloaded => Code::Overloaded,
        Error::Full | Error::CannotGrow => Code::StoreFull,
        Error::Closed => Code::ShuttingDown,
        Error::NewerStore { .. } => Code::StoreNewer,
        _ => Code::StoreFailed,
    }
}

/// The same failure for somebody elsewhere: what is wrong with the signer's own files is said with their paths, which
/// are for the operator, in the log, and for who uses this machine.
pub(crate) fn for_peer(fault: Fault) -> Fault {
    let tells_paths = matches!(
        fault.code,
        Code::RootKeyUnusable | Code::RootKeyMissing | Code::SignerFileDamaged | Code::SignerStateFailed
    );
    if tells_paths {
        return Fault {
            message: "the signer cannot use its own files; the log of the server says why".to_owned(),
            ..fault
        };
    }
    fault
}

/// A failure that lasts fails every request; the log gets it once a minute, what is new at once.
fn report(error: &Error) {
    static LAST: Mutex<Option<(String, Instant)>> = Mutex::new(None);
    let text = error.to_string();
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let is_known = last.as_ref().is_some_and(|(known, at)| *known == text && at.elapsed() < REPORT_PAUSE);
    if !is_known {
        tracing::error!(error = error as &dyn std::error::Error, "the store failed");
        *last = Some((text, Instant::now()));
    }
}

const REPORT_PAUSE: Duration = Duration::from_secs(60);

/// What may be said to someone elsewhere: no path of this machine.
fn public_text(error: &Error) -> String {
    if let Error::FingerprintTaken { fingerprint, name } = error {
        return format!(
            "this certificate is key {name} already: its key {fingerprint} signs under that name"
        );
    }
    let has_path = matches!(
        error,
        Error::Path { .. }
            | Error::Permissions { .. }
            | Error::OtherOwner { .. }
            | Error::NotAStore { .. }
            | Error::NewerStore { .. }
    );
    if has_path { "the store cannot be used".to_owned() } else { error.to_string() }
}

#[cfg(test)]
mod tests {
    use sealwright_crypto::openpgp::fingerprint::Fingerprint;

    use super::*;

    #[test]
    fn a_full_disk_is_one_code_that_nobody_retries() {
        let fault = from_store(Error::Full);
        assert_eq!((fault.code, fault.retry_after_ms), (Code::StoreFull, None));
        assert!(fault.message.contains("disk that holds the store is full"), "{fault}");
        assert!(fault.code.advice().contains("Free some space"));
    }

    #[test]
    fn a_certificate_that_is_here_already_is_named_and_no_other_name_is_advised() {
        let fingerprint = Fingerprint::from_bytes(&[7; 20]).unwrap();
        let fault = from_store(Error::FingerprintTaken { fingerprint, name: "release".to_owned() });
        assert_eq!(fault.code, Code::KeyHereAlready);
        assert!(fault.message.starts_with("this certificate is key release already"), "{fault}");
        assert!(!fault.code.advice().contains("Choose another name"));
    }
}
