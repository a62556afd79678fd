//! Why a server was not reached, and why our own credentials cannot be used to reach one.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::shown::shown;
use rustls::{AlertDescription, CertificateError};
use sealwright_proto::time::utc;

/// One address that was tried.
#[derive(Clone, Debug)]
pub struct Tried {
    /// `sign.example:7443`, with the number behind the name where there are several.
    pub address: String,
    /// What happened.
    pub why: Unreached,
}

impl core::fmt::Display for Tried {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}: {}", self.address, self.why)
    }
}

/// All of them in one sentence.
pub(super) fn tried_text(tried: &[Tried]) -> String {
    let all: Vec<String> = tried.iter().map(ToString::to_string).collect();
    all.join("; ")
}

/// Why one address did not serve.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unreached {
    /// The resolver failed.
    #[error("the name cannot be looked up ({0})")]
    Name(Arc<io::Error>),
    /// The name is known and has no address.
    #[error("the name has no address")]
    NoAddress,
    /// Nothing listens there.
    #[error("connection refused")]
    Refused,
    /// It took too long.
    #[error("no answer within {seconds} s")]
    Silent {
        /// How long was waited.
        seconds: u64,
    },
    /// Anything else that the operating system said.
    #[error("{0}")]
    Io(Arc<io::Error>),
    /// It took the connection and closed it before it was of use: it is full, or it stops.
    #[error("it closed the connection")]
    Closed,
    /// It answered in plain text, or in nothing known.
    #[error("it does not speak TLS, so it is no Sealwright server")]
    NotTls,
    /// TLS 1.2 at most.
    #[error("it does not speak TLS 1.3")]
    OldTls,
    /// It speaks TLS, and other things than we do.
    #[error("it is no Sealwright server")]
    NotSealwright,
    /// No chain from its certificate to our pinned authority.
    #[error("its certificate is not from our certificate authority")]
    UnknownAuthority,
    /// The name asked for is not among those of the certificate.
    #[error("its certificate is for {presented}, not for {expected}")]
    OtherName {
        /// The host of the URL.
        expected: String,
        /// What the certificate names.
        presented: String,
    },
    /// It is over.
    #[error("its certificate expired on {}", utc(*not_after_s))]
    Expired {
        /// Unix seconds.
        not_after_s: i64,
    },
    /// It has not begun, or our clock is behind.
    #[error("its certificate is not valid before {}", utc(*not_before_s))]
    NotYetValid {
        /// Unix seconds.
        not_before_s: i64,
    },
    /// Not for servers.
    #[error("its certificate is not one for a server")]
    WrongPurpose,
    /// Any other fault of its certificate.
    #[error("its certificate is refused ({0})")]
    Certificate(Arc<rustls::Error>),
    /// It does not take our certificate.
    #[error("it refuses our certificate ({reason})")]
    RefusesUs {
        /// As its alert says.
        reason: &'static str,
    },
    /// Any other fault of TLS.
    #[error("the TLS handshake failed ({0})")]
    Tls(Arc<rustls::Error>),
}

impl Unreached {
    /// From what a socket or the TLS stream over it said.
    pub(crate) fn of(error: io::Error) -> Self {
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()).cloned();
        match tls {
            Some(tls) => Self::of_tls(tls),
            None if error.kind() == io::ErrorKind::ConnectionRefused => Self::Refused,
            None if is_end(&error) => Self::Closed,
            None => Self::Io(Arc::new(error)),
        }
    }

    fn of_tls(error: rustls::Error) -> Self {
        if let rustls::Error::InvalidCertificate(fault) = &error {
            return Self::of_certificate(fault).unwrap_or(Self::Certificate(Arc::new(error)));
        }
        if let rustls::Error::AlertReceived(alert) = &error {
            return Self::of_alert(*alert).unwrap_or(Self::Tls(Arc::new(error)));
        }
        if matches!(error, rustls::Error::InvalidMessage(_)) {
            Self::NotTls
        } else if matches!(error, rustls::Error::PeerIncompatible(_)) {
            Self::OldTls
        } else {
            Self::Tls(Arc::new(error))
        }
    }

    fn of_certificate(fault: &CertificateError) -> Option<Self> {
        let seconds = |time: &rustls_pki_types::UnixTime| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        if let CertificateError::ExpiredContext { not_after, .. } = fault {
            return Some(Self::Expired { not_after_s: seconds(not_after) });
        }
        if let CertificateError::NotValidYetContext { not_before, .. } = fault {
            return Some(Self::NotYetValid { not_before_s: seconds(not_before) });
        }
        if let CertificateError::NotValidForNameContext { expected, presented } = fault {
            let presented = if presented.is_empty() { "no name".to_owned() } else { names(presented) };
            return Some(Self::OtherName { expected: usual(&expected.to_str()), presented });
        }
        let foreign = matches!(fault, CertificateError::UnknownIssuer | CertificateError::BadSignature);
        let purpose = matches!(
            fault,
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. }
        );
        foreign.then_some(Self::UnknownAuthority).or(purpose.then_some(Self::WrongPurpose))
    }

    /// RFC 8446 section 6.2.
    fn of_alert(alert: AlertDescription) -> Option<Self> {
        const REASONS: &[(AlertDescription, &str)] = &[
            (AlertDescription::CertificateExpired, "it has expired, by the server's clock"),
            (AlertDescription::CertificateRevoked, "it was revoked"),
            (AlertDescription::UnknownCA, "it is from another certificate authority"),
            (AlertDescription::BadCertificate, "it is damaged, or not valid yet by the server's clock"),
            (AlertDescription::UnsupportedCertificate, "it is not one for a client"),
            (AlertDescription::CertificateUnknown, "it is not acceptable"),
            (AlertDescription::CertificateRequired, "none was presented"),
            (AlertDescription::AccessDenied, "access denied"),
            (AlertDescription::DecryptError, "its signature does not verify"),
        ];
        if alert == AlertDescription::NoApplicationProtocol {
            return Some(Self::NotSealwright);
        }
        if alert == AlertDescription::ProtocolVersion {
            return Some(Self::OldTls);
        }
        let (_, reason) = REASONS.iter().find(|(known, _)| *known == alert)?;
        Some(Self::RefusesUs { reason })
    }

    /// Whether another try, a little later, can succeed with nothing changed by a person.
    #[must_use]
    pub const fn passes(&self) -> bool {
        match self {
            Self::Name(_) | Self::Refused | Self::Silent { .. } | Self::Io(_) | Self::Closed => true,
            Self::NoAddress
            | Self::NotTls
            | Self::OldTls
            | Self::NotSealwright
            | Self::UnknownAuthority
            | Self::OtherName { .. }
            | Self::Expired { .. }
            | Self::NotYetValid { .. }
            | Self::WrongPurpose
            | Self::Certificate(_)
            | Self::RefusesUs { .. }
            | Self::Tls(_) => false,
        }
    }

    /// What a person can do.
    #[must_use]
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::Name(_) | Self::NoAddress => "Check the name in the server's URL, and the resolver.",
            Self::Refused => "Start the server (sealwright serve), or check the address and port.",
            Self::Silent { .. } => "Check the address, and that no firewall is in between.",
            Self::Io(_) => "See what the operating system says, then try again.",
            Self::Closed => "The server is full or stopping; see its log, and try again.",
            Self::NotTls | Self::OldTls | Self::NotSealwright => "Check the address and port.",
            Self::UnknownAuthority => {
                "Compare the file named by ca in client.toml with the server's tls/ca.pem; if they are the same, somebody else answers."
            }
            Self::OtherName { .. } => {
                "Use one of these names in the URL, or add this one to them on the server: sealwright init --renew-server --name NAME, then reload it."
            }
            Self::Expired { .. } => "On the server: sealwright init --renew-server, then reload it.",
            Self::NotYetValid { .. } => "Compare the clocks of this machine and the server.",
            Self::WrongPurpose | Self::Certificate(_) => {
                "On the server: sealwright init --renew-server, then reload it."
            }
            Self::RefusesUs { .. } => {
                "Ask the operator for a new certificate (sealwright init --client NAME), and compare the clocks."
            }
            Self::Tls(_) => "Client and server may be of different releases; otherwise report it.",
        }
    }
}

/// The connection ended where it should not.
fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
    )
}

/// rustls writes `DnsName("a")` and `IpAddress(::1)`; a person wants `a, ::1`.
fn names(presented: &[String]) -> String {
    const SHOWN_MAX: usize = 8;
    let bare = |name: &String| {
        let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
        usual(inner.unwrap_or(name).trim_matches('"'))
    };
    let mut list: Vec<String> = presented.iter().take(SHOWN_MAX).map(bare).collect();
    if presented.len() > SHOWN_MAX {
        list.push("others".to_owned());
    }
    list.join(", ")
}

/// An address as everybody writes it: `::1`, where the TLS library says `0::1`.
fn usual(name: &str) -> String {
    name.parse::<std::net::IpAddr>().map_or_else(|_| name.to_owned(), |address| address.to_string())
}

/// Why a file of our credentials cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialFault {
    /// Cannot be read.
    #[error("cannot be read")]
    Read(#[source] io::Error),
    /// Far longer than any.
    #[error("is longer than {limit} bytes")]
    TooLong {
        /// The limit, in bytes.
        limit: usize,
    },
    /// A secret that others can read.
    #[error("can be read by others (mode {mode:04o})")]
    OpenToOthers {
        /// Permission bits.
        mode: u32,
    },
    /// No PEM block of the kind that is wanted.
    #[error("holds no {what} in PEM form")]
    Nothing {
        /// "certificate", "private key".
        what: &'static str,
    },
    /// A block that is not what it says.
    #[error("holds a {what} that cannot be used")]
    Unusable {
        /// "certificate", "private key".
        what: &'static str,
        /// What rustls says, where it was asked.
        source: Option<rustls::Error>,
    },
    /// It is over.
    #[error("expired on {}", utc(*not_after_s))]
    Expired {
        /// Unix seconds.
        not_after_s: i64,
    },
    /// It has not begun.
    #[error("is not valid before {}", utc(*not_before_s))]
    NotYetValid {
        /// Unix seconds.
        not_before_s: i64,
    },
    /// The two do not belong together.
    #[error("does not belong to the certificate {}", shown(certificate))]
    KeyMismatch {
        /// The certificate.
        certificate: PathBuf,
    },
}

impl CredentialFault {
    /// What a person can do.
    #[must_use]
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::Read(_) => "Check the name in client.toml, and that this user may read the file.",
            Self::OpenToOthers { .. } => "Take it away from the others: chmod 600.",
            Self::TooLong { .. } | Self::Nothing { .. } | Self::Unusable { .. } => {
                "Copy the files again from the directory that sealwright init made."
            }
            Self::Expired { .. } => "Ask the operator for a new one: sealwright init --client NAME.",
            Self::NotYetValid { .. } => "Check the clock of this machine.",
            Self::KeyMismatch { .. } => {
                "Copy both files again, of the same directory that sealwright init made."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tls(error: rustls::Error) -> Unreached {
        Unreached::of(io::Error::new(io::ErrorKind::InvalidData, error))
    }

    #[test]
    fn what_tls_says_becomes_a_cause_with_advice() {
        let alert = |alert| tls(rustls::Error::AlertReceived(alert));
        assert!(matches!(alert(AlertDescription::CertificateRevoked), Unreached::RefusesUs { .. }));
        assert!(matches!(alert(AlertDescription::NoApplicationProtocol), Unreached::NotSealwright));
        assert!(matches!(alert(AlertDescription::InternalError), Unreached::Tls(_)));
        let fault = |fault| tls(rustls::Error::InvalidCertificate(fault));
        assert!(matches!(fault(CertificateError::UnknownIssuer), Unreached::UnknownAuthority));
        assert!(matches!(fault(CertificateError::BadEncoding), Unreached::Certificate(_)));
        let plain = tls(rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType));
        assert!(matches!(plain, Unreached::NotTls));
        assert!(!plain.advice().is_empty() && !plain.passes());
    }

    #[test]
    fn names_of_a_certificate_are_shown_bare_and_few() {
        let one = |name: &str| vec![name.to_owned()];
        assert_eq!(names(&one("DnsName(\"sign.example\")")), "sign.example");
        assert_eq!(names(&one("IpAddress(0::1)")), "::1");
        assert!(names(&vec!["x".to_owned(); 9]).ends_with("x, others"));
    }

    #[test]
    fn ends_of_connections_pass_and_wrong_certificates_do_not() {
        assert!(Unreached::of(io::ErrorKind::ConnectionRefused.into()).passes());
        assert!(Unreached::of(io::ErrorKind::UnexpectedEof.into()).passes());
        assert!(!Unreached::Expired { not_after_s: 0 }.passes());
        assert!(Unreached::Expired { not_after_s: 0 }.to_string().contains("1970-01-01"));
    }
}
