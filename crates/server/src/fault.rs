//! Errors of the store as failures on the wire: one table.

use sealwright_proto::status::{Code, Fault};
use sealwright_store::Error;

/// The failure that a peer sees. Paths and what the driver says stay here, in the log of the process.
#[expect(clippy::needless_pass_by_value, reason = "it is what map_err calls")]
pub(crate) fn from_store(error: Error) -> Fault {
    let code = code(&error);
    if code == Code::StoreFailed {
        tracing::error!(error = &error as &dyn std::error::Error, "the store failed");
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
        Error::NameTaken { .. } | Error::FingerprintTaken { .. } => Code::KeyExists,
        Error::GenerationChanged { .. } => Code::KeyChanged,
        Error::TooLarge { .. } => Code::LimitExceeded,
        Error::Busy => Code::Overloaded,
        Error::Closed => Code::ShuttingDown,
        Error::NewerStore { .. } => Code::StoreNewer,
        _ => Code::StoreFailed,
    }
}

/// What may be said to someone elsewhere: no path of this machine.
fn public_text(error: &Error) -> String {
    let has_path = matches!(
        error,
        Error::Path { .. } | Error::Permissions { .. } | Error::NotAStore { .. } | Error::NewerStore { .. }
    );
    if has_path { "the store cannot be used".to_owned() } else { error.to_string() }
}
