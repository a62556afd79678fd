//! The certificate authority of an installation: made once, kept in `ca/`, and used only when a certificate is issued.
//! ECDSA P-256 throughout. Whoever verifies them is rustls; nothing is verified here.

use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData as _, SerialNumber,
};
use sealwright_client::source::kept;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::pem::parse_x509_pem;
use zeroize::Zeroizing;

use crate::failure::Failure;

/// Validity of the authority in years.
const AUTHORITY_YEARS: i16 = 10;
/// Validity of the certificates that it issues, in years; never beyond its own.
const ISSUED_YEARS: i16 = 2;
/// Days by which a certificate is dated back, so that a clock that is a little behind accepts it.
const BACKDATED_DAYS: i64 = 1;
/// Bytes of its files.
const FILE_BYTES_MAX: usize = 64 << 10;
/// Bytes of a serial number: RFC 5280 section 4.1.2.2 allows 20.
const SERIAL_BYTES: usize = 16;

/// The authority, with its key.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate_pem: String,
    not_after: jiff::civil::Date,
}

/// Whom a certificate is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject<'a> {
    /// A server of these names and addresses.
    Server(&'a [String]),
    /// A client of this name.
    Client(&'a str),
}

/// A new certificate.
pub(crate) struct Issued {
    /// PEM.
    pub(crate) certificate_pem: String,
    /// Lower-case hexadecimal.
    pub(crate) serial: String,
    /// Its last day.
    pub(crate) not_after: String,
}

/// What is read of a certificate that is there.
pub(crate) struct Found {
    /// First common name.
    common_name: String,
    /// Subject alternative names.
    pub(crate) names: Vec<String>,
    public_key: Vec<u8>,
    not_after_s: i64,
}

impl Authority {
    /// A new one, and its key in PEM.
    pub(crate) fn make() -> Result<(Self, Zeroizing<String>), Failure> {
        let serial = serial()?;
        let mark: String = hex(&serial).chars().take(8).collect();
        let key = new_key()?;
        let mut params = authority_params(&format!("Sealwright authority {mark}"));
        let not_after = years_from_today(AUTHORITY_YEARS)?;
        date(&mut params, not_after)?;
        params.serial_number = Some(SerialNumber::from_slice(&serial));
        let certificate = params.self_signed(&key).map_err(|error| failed(&error))?;
        let (certificate_pem, key_pem) = (certificate.pem(), Zeroizing::new(key.serialize_pem()));
        Ok((Self { issuer: Issuer::new(params, key), certificate_pem, not_after }, key_pem))
    }

    /// That in `folder`.
    pub(crate) fn open(folder: &Path) -> Result<Self, Failure> {
        let (certificate, key) = (folder.join("ca.pem"), folder.join("ca.key"));
        let read = |path: &Path| {
            kept::read_text(path, FILE_BYTES_MAX).map_err(|error| {
                Failure::failed(
                    format!("cannot read {}: {error}", path.display()),
                    "Put the folder ca back where sealwright init made it; nothing else can issue certificates.",
                )
            })
        };
        let certificate_pem = read(&certificate)?;
        let key_pem = Zeroizing::new(read(&key)?);
        let damaged = |path: &Path| {
            Failure::failed(format!("{} is damaged", path.display()), "Restore the folder ca from a backup.")
        };
        let found = Found::read(&certificate_pem).ok_or_else(|| damaged(&certificate))?;
        let key_pair = KeyPair::from_pem(&key_pem).map_err(|_| damaged(&key))?;
        if key_pair.subject_public_key_info() != found.public_key {
            let what = format!("{} does not belong to {}", key.display(), certificate.display());
            return Err(Failure::failed(what, "Restore the folder ca from one backup."));
        }
        let not_after = jiff::Timestamp::from_second(found.not_after_s)
            .map(|time| time.to_zoned(jiff::tz::TimeZone::UTC).date())
            .map_err(|_| damaged(&certificate))?;
        let issuer = Issuer::new(authority_params(&found.common_name), key_pair);
        Ok(Self { issuer, certificate_pem, not_after })
    }

    /// PEM.
    pub(crate) fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// A certificate over `key`.
    pub(crate) fn issue(&self, subject: Subject<'_>, key: &KeyPair) -> Result<Issued, Failure> {
        let not_after = years_from_today(ISSUED_YEARS)?.min(self.not_after);
        if not_after <= today() {
            return Err(Failure::failed(
                "the certificate authority has expired",
                "Make a new installation in another directory with sealwright init, and hand out new client directories.",
            ));
        }
        let serial = serial()?;
        let mut params = subject_params(subject)?;
        date(&mut params, not_after)?;
        params.serial_number = Some(SerialNumber::from_slice(&serial));
        let certificate = params.signed_by(key, &self.issuer).map_err(|error| failed(&error))?;
        Ok(Issued {
            certificate_pem: certificate.pem(),
            serial: hex(&serial),
            not_after: not_after.to_string(),
        })
    }
}

impl Found {
    /// Of the first certificate of a PEM text.
    pub(crate) fn read(pem: &str) -> Option<Self> {
        let (_, block) = parse_x509_pem(pem.as_bytes()).ok()?;
        let certificate: X509Certificate<'_> = block.parse_x509().ok()?;
        let common_name = certificate.subject().iter_common_name().next()?.as_str().ok()?.to_owned();
        let names = certificate.subject_alternative_name().ok()?;
        let names = names.map(|names| names.value.general_names.iter().filter_map(name).collect());
        Some(Self {
            common_name,
            names: names.unwrap_or_default(),
            public_key: certificate.public_key().raw.to_vec(),
            not_after_s: certificate.validity().not_after.timestamp(),
        })
    }
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    if let GeneralName::DNSName(name) = name {
        return Some((*name).to_owned());
    }
    let GeneralName::IPAddress(bytes) = name else { return None };
    let four = <[u8; 4]>::try_from(*bytes).map(std::net::IpAddr::from).ok();
    four.or_else(|| <[u8; 16]>::try_from(*bytes).map(std::net::IpAddr::from).ok()).map(|ip| ip.to_string())
}

/// A new private key.
pub(crate) fn new_key() -> Result<KeyPair, Failure> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|error| failed(&error))
}

/// The same for the authority whenever it issues: what goes into an issued certificate is its name and key id.
fn authority_params(common_name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named(common_name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn subject_params(subject: Subject<'_>) -> Result<CertificateParams, Failure> {
    let (common_name, names, usage) = match subject {
        Subject::Server(names) => {
            let first = names.first().map_or("server", String::as_str);
            (first, names.to_vec(), ExtendedKeyUsagePurpose::ServerAuth)
        }
        Subject::Client(name) => (name, Vec::new(), ExtendedKeyUsagePurpose::ClientAuth),
    };
    let mut params = CertificateParams::new(names).map_err(|error| failed(&error))?;
    params.distinguished_name = named(common_name);
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn named(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

fn today() -> jiff::civil::Date {
    jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date()
}

fn years_from_today(years: i16) -> Result<jiff::civil::Date, Failure> {
    today().checked_add(jiff::Span::new().years(years)).map_err(|_| clock())
}

fn date(params: &mut CertificateParams, not_after: jiff::civil::Date) -> Result<(), Failure> {
    let start = today().checked_sub(jiff::Span::new().days(BACKDATED_DAYS)).map_err(|_| clock())?;
    let time = |date: jiff::civil::Date| {
        let part = |number: i8| u8::try_from(number).map_err(|_| clock());
        Ok::<_, Failure>(rcgen::date_time_ymd(date.year().into(), part(date.month())?, part(date.day())?))
    };
    params.not_before = time(start)?;
    params.not_after = time(not_after)?;
    Ok(())
}

fn clock() -> Failure {
    Failure::failed("the clock of this machine is out of range", "Set the clock.")
}

/// Random, and positive without a leading zero byte, so that it looks the same everywhere.
pub(crate) fn serial() -> Result<[u8; SERIAL_BYTES], Failure> {
    let mut bytes = [0u8; SERIAL_BYTES];
    let filled = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty());
    if filled.ok() != Some(SERIAL_BYTES) {
        return Err(Failure::failed("the kernel gives no random bytes", "Try again."));
    }
    if let Some(first) = bytes.first_mut() {
        *first = (*first & 0x7f) | 0x40;
    }
    Ok(bytes)
}

fn hex(bytes: &[u8]) -> String {
    sealwright_crypto::digest::to_hex(bytes)
}

fn failed(error: &rcgen::Error) -> Failure {
    Failure::failed(
        format!("cannot make a certificate: {error}"),
        "Check the names that were given; otherwise report it.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_that_is_opened_again_issues_as_before() {
        let folder = tempfile::tempdir().unwrap();
        let (made, key_pem) = Authority::make().unwrap();
        std::fs::write(folder.path().join("ca.pem"), made.certificate_pem()).unwrap();
        std::fs::write(folder.path().join("ca.key"), key_pem.as_bytes()).unwrap();
        let opened = Authority::open(folder.path()).unwrap();
        assert_eq!(opened.not_after, made.not_after);
        let key = new_key().unwrap();
        let names = vec!["sign.example".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        let issued = opened.issue(Subject::Server(&names), &key).unwrap();
        assert_eq!(issued.serial.len(), 32);
        assert_eq!(Found::read(&issued.certificate_pem).unwrap().names, names);
        let (other, _) = Authority::make().unwrap();
        std::fs::write(folder.path().join("ca.pem"), other.certificate_pem()).unwrap();
        assert!(Authority::open(folder.path()).is_err(), "a key of another authority");
    }
}
