//! The one table of failures: number on the wire, name, whose fault, whether a retry can help, gRPC and HTTP
//! status, exit status of the command line, and what to do. A new failure is one row of `codes!`.

/// Whose fault a failure is; it says who has to act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The request or the file; the person who asked.
    Caller,
    /// The installation: keys, clock, disk, load; the person who runs it.
    Operator,
    /// Sealwright itself; a report is wanted.
    Us,
}

/// Whether the same request can succeed later with nothing changed by a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Yes, with the same request id, after the wait that the failure names.
    Yes,
    /// No.
    No,
}

/// The canonical gRPC status codes in use (grpc/grpc, `doc/statuscodes.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grpc {
    /// 3
    InvalidArgument = 3,
    /// 4
    DeadlineExceeded = 4,
    /// 5
    NotFound = 5,
    /// 6
    AlreadyExists = 6,
    /// 7
    PermissionDenied = 7,
    /// 8
    ResourceExhausted = 8,
    /// 9
    FailedPrecondition = 9,
    /// 10
    Aborted = 10,
    /// 12
    Unimplemented = 12,
    /// 13
    Internal = 13,
    /// 14
    Unavailable = 14,
    /// 15
    DataLoss = 15,
    /// 16
    Unauthenticated = 16,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Number on the wire; never reused.
    pub number: u32,
    /// Name in JSON, logs and metrics.
    pub name: &'static str,
    /// Whose fault.
    pub blame: Blame,
    /// Whether a retry can help.
    pub retry: Retry,
    /// gRPC status.
    pub grpc: Grpc,
    /// HTTP status.
    pub http: u16,
    /// Exit status of the command line when a whole run ends by it: 1, a file or key failed; 3, no access.
    pub exit: u8,
    /// What to do, one or two plain sentences.
    pub advice: &'static str,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident = $number:literal $name:literal $blame:ident $retry:ident $grpc:ident $http:literal $exit:literal $advice:literal;)+) => {
        /// What went wrong. The variants are the rows of the table in this file.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code {
            $($(#[$doc])* $code,)+
        }

        impl Code {
            /// All of them, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$code,)+];

            /// The row of this code.
            #[must_use]
            pub const fn row(self) -> Row {
                match self {
                    $(Self::$code => Row {
                        number: $number,
                        name: $name,
                        blame: Blame::$blame,
                        retry: Retry::$retry,
                        grpc: Grpc::$grpc,
                        http: $http,
                        exit: $exit,
                        advice: $advice,
                    },)+
                }
            }
        }
    };
}

codes! {
    // The request.
    /// A message that breaks a rule of its shape.
    MalformedRequest = 1 "malformed-request" Caller No InvalidArgument 400 1
        "The client sent something that no release of it should send. Update it.";
    /// Above a named limit.
    LimitExceeded = 2 "limit-exceeded" Caller No InvalidArgument 413 1
        "Send less at once.";
    /// Well formed, but not known to this release: a usage, a hash, an algorithm.
    Unsupported = 3 "unsupported" Caller No InvalidArgument 400 1
        "Use a supported value, or update the server.";
    /// The same request id was used with other content.
    RequestConflict = 4 "request-conflict" Caller No AlreadyExists 409 1
        "Use a new request id for new content.";
    /// No grant allows it.
    PermissionDenied = 5 "permission-denied" Caller No PermissionDenied 403 3
        "Ask the operator for that right: a grant on the key to sign, or to administer keys.";
    /// The certificate is good, and its name is in no entry of the server.
    UnknownClient = 6 "unknown-client" Caller No PermissionDenied 403 3
        "Ask the operator for an entry of this name in clients.toml, or use the certificate of a client that has one.";
    /// The operator has withdrawn the client, or this certificate of it.
    ClientRevoked = 7 "client-revoked" Caller No Unauthenticated 401 3
        "Ask the operator for a new certificate.";
    /// The client's certificate has ended while its connection was open.
    ClientCertificateExpired = 8 "client-certificate-expired" Caller No Unauthenticated 401 3
        "Ask the operator for a new certificate (`sealwright init --client NAME`).";
    /// The client's certificate names nobody, is for something else, or is not of an authority that counts now.
    ClientCertificateRefused = 9 "client-certificate-refused" Caller No Unauthenticated 401 3
        "Use a certificate for clients, of the authority of this server, with exactly one common name.";

    /// A call, or a compression of messages, that this server does not have.
    NotImplemented = 10 "not-implemented" Caller No Unimplemented 404 1
        "Client and server are of different releases: update the older one. Send messages without compression.";

    // Keys.
    /// No key of that name or fingerprint.
    KeyNotFound = 20 "key-not-found" Caller No NotFound 404 1
        "See `sealwright key list`.";
    /// Switched off by the operator.
    KeyDisabled = 21 "key-disabled" Operator No FailedPrecondition 409 1
        "Switch it on with `sealwright key enable`, or use another key.";
    /// The certificate or the signing subkey has expired.
    KeyExpired = 22 "key-expired" Operator No FailedPrecondition 409 1
        "Extend it with `sealwright key renew` if its primary secret key is here, or use another key.";
    /// A key of that name exists, or existed.
    KeyExists = 23 "key-exists" Caller No AlreadyExists 409 1
        "Choose another name.";
    /// The name has other characters than allowed, or could be read as a fingerprint.
    NameNotAllowed = 24 "name-not-allowed" Caller No InvalidArgument 400 1
        "Use 1 to 255 of A-Z a-z 0-9 @ # . _ + - and no text that looks like a fingerprint.";
    /// The usages sealed with the key do not allow it.
    UsageNotAllowed = 25 "usage-not-allowed" Caller No PermissionDenied 403 1
        "Use a key made for this usage.";
    /// The key changed between the request and its log entry.
    KeyChanged = 26 "key-changed" Operator Yes Aborted 409 1
        "Somebody renewed or rotated the key meanwhile. Repeat the request.";
    /// A key file that cannot be imported.
    ImportRefused = 27 "import-refused" Caller No InvalidArgument 422 1
        "Export a secret key of version 4 or 6, RSA of at least 2048 bits or Ed25519, that can sign now.";
    /// The passphrase does not open the key file.
    PassphraseWrong = 28 "passphrase-wrong" Caller No InvalidArgument 422 1
        "Give the right passphrase with --passphrase-file.";
    /// The primary secret key is not here.
    NotRenewable = 29 "not-renewable" Caller No FailedPrecondition 409 1
        "Renew the certificate where its primary secret key is kept, and import it again.";
    /// A key that signs with this component is here already, under another name.
    KeyHereAlready = 30 "key-here-already" Caller No AlreadyExists 409 1
        "Use the key that is here, by the name that the message says.";

    /// A ticket for a salt that does not fit the request, has ended, or was used; or none where one is needed.
    TicketRefused = 31 "ticket-refused" Caller No FailedPrecondition 409 1
        "Ask for new salts, hash the content again, and sign it under a new request id. Signing the file again does that.";

    // Time.
    /// The signer's clock is before the key's creation, or before its last signature.
    ClockBehind = 40 "clock-behind" Operator No FailedPrecondition 409 1
        "Set the clock of the machine that holds the keys. If it is right, use another key until the later of the two times.";

    // The signer's own files, and what they seal.
    /// Blobs were sealed under another root key.
    RootKeyWrong = 50 "root-key-wrong" Operator No FailedPrecondition 503 1
        "Put back the root key that belongs to this store.";
    /// The root key, or another file of the signer, can be read or changed by others, or is no file.
    RootKeyUnusable = 51 "root-key-unusable" Operator No FailedPrecondition 503 1
        "The root key and the other files of the signer must be regular files with mode 0600, owned by the user of the signer.";
    /// A sealed key does not open: damaged, exchanged, or changed.
    SealBroken = 52 "seal-broken" Operator No DataLoss 500 1
        "The stored key was damaged or altered. Restore it from a backup, and look for who did it.";
    /// A sealed key older than one that the signer has seen.
    GenerationSuperseded = 53 "generation-superseded" Operator No FailedPrecondition 409 1
        "The database is older than the signer's own records: restore a newer backup.";
    /// The signer cannot read or write its own records.
    SignerStateFailed = 54 "signer-state-failed" Operator No Internal 500 1
        "See that the directory of the signer's state is writable and the disk is not full.";
    /// A key type does not sign and verify on this processor.
    SelfTestFailed = 55 "self-test-failed" Operator No Internal 503 1
        "Nothing is signed on this machine until it passes. Try another build or machine, and report it.";
    /// The signer cannot confine itself, or cannot lock memory for secrets.
    ConfinementFailed = 56 "confinement-failed" Operator No FailedPrecondition 503 1
        "Allow the signer seccomp filters and at least 16 KiB of locked memory (ulimit -l).";
    /// A file of the signer's own is not what it wrote there.
    SignerFileDamaged = 57 "signer-file-damaged" Operator No DataLoss 503 1
        "Restore the file that the message names from a backup; do not delete it.";
    /// One of the signer's files is gone while others of it are there.
    RootKeyMissing = 58 "root-key-missing" Operator No FailedPrecondition 503 1
        "Restore the folder of the root key from a backup, or choose another place for new keys with SEALWRIGHT_HOME.";
    /// The signer's files and the store are not of one installation.
    StoreMismatch = 59 "store-mismatch" Operator No FailedPrecondition 503 1
        "Restore the store and the folder of the root key from one backup, or choose another place with SEALWRIGHT_HOME.";

    // Availability.
    /// The signer process ended with the request in its hands.
    SignerGone = 70 "signer-gone" Operator Yes Unavailable 503 1
        "Repeat the request. If it stays, see that the machine has memory and process numbers left for the signer.";
    /// Queues are full.
    Overloaded = 71 "overloaded" Operator Yes ResourceExhausted 429 1
        "Repeat the request after the time that the answer names.";
    /// Not done within the time that the client was ready to wait.
    DeadlineExceeded = 72 "deadline-exceeded" Operator Yes DeadlineExceeded 504 1
        "Repeat the request, with more time or fewer at once.";
    /// The server is stopping.
    ShuttingDown = 73 "shutting-down" Operator Yes Unavailable 503 1
        "Repeat the request in a moment.";
    /// The database failed.
    StoreFailed = 74 "store-failed" Operator Yes Unavailable 503 1
        "See that the store's disk is writable and without faults.";
    /// The database was written by a newer release.
    StoreNewer = 75 "store-newer" Operator No FailedPrecondition 503 1
        "Use that release, or a newer one.";
    /// No space is left for the record without which nothing is signed.
    StoreFull = 76 "store-full" Operator No FailedPrecondition 507 1
        "Free some space on the disk that holds the store, or raise the limit of file sizes if there is one, and sign again.";

    // Sealwright.
    /// A key operation gave something that does not verify; it was not released.
    SignatureSelfCheckFailed = 90 "signature-self-check-failed" Us No Internal 500 1
        "The signature was thrown away. Check the machine's memory and processor, and report it.";
    /// Anything that should not happen.
    Internal = 91 "internal" Us No Internal 500 1
        "Please report it with the request id.";
}

impl Code {
    /// The code of a number on the wire; [`Self::Internal`] for a number that this release does not know, so that
    /// a newer peer's failure stays a failure.
    #[must_use]
    pub fn from_number(number: u32) -> Self {
        Self::ALL.iter().copied().find(|code| code.row().number == number).unwrap_or(Self::Internal)
    }

    /// [`Row::number`].
    #[must_use]
    pub const fn number(self) -> u32 {
        self.row().number
    }

    /// [`Row::name`].
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// [`Row::advice`].
    #[must_use]
    pub const fn advice(self) -> &'static str {
        self.row().advice
    }

    /// Whether a retry can help.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        matches!(self.row().retry, Retry::Yes)
    }
}

impl core::fmt::Display for Code {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

/// A failure as it travels: the code, and what happened in words for a person. The text names the key or the
/// limit; it never holds a secret or a path of the server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// The row of the table.
    pub code: Code,
    /// What happened.
    pub message: String,
    /// Milliseconds to wait before a retry; only where one can help.
    pub retry_after_ms: Option<u32>,
}

impl Fault {
    /// A failure with its text, cut at [`crate::limits::MESSAGE_BYTES_MAX`].
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let retry_after_ms = code.is_retryable().then_some(RETRY_AFTER_MS_DEFAULT);
        Self { code, message: bounded(message.into()), retry_after_ms }
    }

    /// Another wait before a retry than the usual one.
    #[must_use]
    pub const fn retry_after(mut self, milliseconds: u32) -> Self {
        self.retry_after_ms = Some(milliseconds);
        self
    }
}

/// Milliseconds before a retry when the sender has no better idea.
pub const RETRY_AFTER_MS_DEFAULT: u32 = 200;

fn bounded(mut text: String) -> String {
    let mut end = crate::limits::MESSAGE_BYTES_MAX;
    while !text.is_char_boundary(end.min(text.len())) {
        end = end.saturating_sub(1);
    }
    text.truncate(end);
    text
}

impl From<crate::v1::Failure> for Fault {
    fn from(wire: crate::v1::Failure) -> Self {
        let code = Code::from_number(wire.code);
        Self { code, message: bounded(wire.message), retry_after_ms: wire.retry_after_ms }
    }
}

impl From<Fault> for crate::v1::Failure {
    fn from(fault: Fault) -> Self {
        Self { code: fault.code.number(), message: fault.message, retry_after_ms: fault.retry_after_ms }
    }
}

impl From<crate::signer_v1::SignerFailure> for Fault {
    fn from(wire: crate::signer_v1::SignerFailure) -> Self {
        let code = Code::from_number(wire.code);
        Self { code, message: bounded(wire.message), retry_after_ms: wire.retry_after_ms }
    }
}

impl From<Fault> for crate::signer_v1::SignerFailure {
    fn from(fault: Fault) -> Self {
        Self { code: fault.code.number(), message: fault.message, retry_after_ms: fault.retry_after_ms }
    }
}

#[cfg(feature = "grpc")]
mod grpc {
    use super::{Code, Fault};
    use prost::Message as _;

    impl From<Fault> for tonic::Status {
        /// The details hold the encoded `sealwright.v1.Failure`.
        fn from(fault: Fault) -> Self {
            let grpc = tonic::Code::from_i32(fault.code.row().grpc as i32);
            let message = fault.message.clone();
            let details = crate::v1::Failure::from(fault).encode_to_vec();
            Self::with_details(grpc, message, details.into())
        }
    }

    impl From<&tonic::Status> for Fault {
        /// The inverse. A status without our details comes from the transport, not from a server of ours; its
        /// gRPC code decides.
        fn from(status: &tonic::Status) -> Self {
            let wire = crate::v1::Failure::decode(status.details()).ok();
            if let Some(wire) = wire.filter(|wire| wire.code != 0) {
                return wire.into();
            }
            let code = match status.code() {
                tonic::Code::DeadlineExceeded | tonic::Code::Cancelled => Code::DeadlineExceeded,
                tonic::Code::Unavailable => Code::ShuttingDown,
                tonic::Code::ResourceExhausted | tonic::Code::OutOfRange => Code::LimitExceeded,
                tonic::Code::PermissionDenied | tonic::Code::Unauthenticated => Code::PermissionDenied,
                tonic::Code::InvalidArgument => Code::MalformedRequest,
                tonic::Code::Unimplemented => Code::NotImplemented,
                tonic::Code::Ok
                | tonic::Code::Unknown
                | tonic::Code::NotFound
                | tonic::Code::AlreadyExists
                | tonic::Code::FailedPrecondition
                | tonic::Code::Aborted
                | tonic::Code::Internal
                | tonic::Code::DataLoss => Code::Internal,
            };
            Self::new(code, status.message())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_unique_and_lead_back() {
        for (index, code) in Code::ALL.iter().enumerate() {
            assert_ne!(code.number(), 0, "0 is an absent field");
            assert_eq!(Code::from_number(code.number()), *code);
            let later = &Code::ALL[index + 1..];
            assert!(later.iter().all(|other| other.name() != code.name()), "{code}");
        }
    }

    #[test]
    fn rows_are_consistent() {
        for code in Code::ALL {
            let row = code.row();
            assert!(matches!(row.exit, 1 | 3), "{code}");
            assert!(row.name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{code}");
            assert!(row.advice.ends_with('.') && row.advice.len() > 10, "{code}");
            match row.blame {
                Blame::Caller => assert!((400..500).contains(&row.http), "{code}"),
                Blame::Operator => assert!((400..600).contains(&row.http), "{code}"),
                Blame::Us => assert_eq!(row.http, 500, "{code}"),
            }
            let transient = matches!(
                row.grpc,
                Grpc::Unavailable | Grpc::Aborted | Grpc::ResourceExhausted | Grpc::DeadlineExceeded
            );
            assert_eq!(transient, row.retry == Retry::Yes, "{code}: gRPC clients retry by the status");
            assert_eq!(Fault::new(*code, "x").retry_after_ms.is_some(), code.is_retryable());
        }
    }

    #[test]
    fn the_table_is_that_of_the_documentation() {
        let rows: String = Code::ALL
            .iter()
            .map(|code| {
                let row = code.row();
                let (blame, retry) = (format!("{:?}", row.blame), format!("{:?}", row.retry));
                let (blame, retry) = (blame.to_lowercase(), retry.to_lowercase());
                let (number, name, grpc) = (row.number, row.name, row.grpc as i32);
                format!("| {number} | {name} | {blame} | {retry} | {grpc} | {} | {} |\n", row.http, row.exit)
            })
            .collect();
        let text = include_str!("../../../docs/WIRE.md");
        assert!(text.ends_with(&rows), "docs/WIRE.md should end in:\n{rows}");
    }

    #[test]
    fn an_unknown_number_stays_a_failure_and_keeps_its_text() {
        let wire = crate::v1::Failure { code: 4_000_000, message: "new".to_owned(), retry_after_ms: None };
        let fault = Fault::from(wire);
        assert_eq!((fault.code, fault.message.as_str()), (Code::Internal, "new"));
    }

    #[test]
    fn faults_survive_both_wires() {
        for code in Code::ALL {
            let fault = Fault::new(*code, format!("about {code}"));
            assert_eq!(Fault::from(crate::v1::Failure::from(fault.clone())), fault);
            assert_eq!(Fault::from(crate::signer_v1::SignerFailure::from(fault.clone())), fault);
        }
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        let text = "ä".repeat(crate::limits::MESSAGE_BYTES_MAX);
        let fault = Fault::new(Code::Internal, text);
        assert!(fault.message.len() <= crate::limits::MESSAGE_BYTES_MAX);
        assert!(fault.message.chars().all(|c| c == 'ä'));
    }

    #[cfg(feature = "grpc")]
    #[test]
    fn faults_survive_a_grpc_status() {
        for code in Code::ALL {
            let fault = Fault::new(*code, format!("about {code}"));
            let status = tonic::Status::from(fault.clone());
            assert_eq!(status.code() as i32, code.row().grpc as i32);
            assert_eq!(Fault::from(&status), fault);
        }
    }
}
