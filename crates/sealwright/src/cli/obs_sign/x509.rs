//! `-C`: an X.509 certificate for a key of OpenPGP, signed by itself, for code signing (RFC 5280): name and address of its
//! user id, as long as the key is good.

use rcgen::{
    CertificateParams, DistinguishedName, DnType, DnValue, ExtendedKeyUsagePurpose, IsCa, KeyUsagePurpose,
    PublicKeyData, SerialNumber, SignatureAlgorithm, SigningKey,
};
use sealwright_crypto::algorithm::HashAlgorithm;
use sealwright_crypto::openpgp::certificate::{Certificate, Component};
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::failure::Failure;
use crate::init::authority;

/// `emailAddress` (RFC 2985 section 5.2.1).
const EMAIL: &[u64] = &[1, 2, 840, 113_549, 1, 9, 1];
/// `ub-common-name` and `ub-emailaddress-length` of RFC 3280, as obs-sign has it.
const NAME_BYTES_MAX: usize = 64;
const EMAIL_BYTES_MAX: usize = 128;
const CUT: &str = "...";

/// A certificate without its signature.
pub(super) struct Unsigned {
    params: CertificateParams,
    public: Vec<u8>,
    algorithm: &'static SignatureAlgorithm,
    to_be_signed: Vec<u8>,
}

impl Unsigned {
    /// # Errors
    /// The key is not RSA, has no end or no user id with an address.
    pub(super) fn new(
        certificate: &Certificate,
        component: &Component,
        hash: HashAlgorithm,
    ) -> Result<Self, Failure> {
        let unfit = |why: &str| {
            Failure::failed(why.to_owned(), "Name the public key of a project, as sign -g prints it.")
        };
        let public = component.rsa_public_key().ok_or_else(|| unfit("not a RSA pubkey"))?;
        let ends = certificate.expires().ok_or_else(|| unfit("self-sig does not expire"))?;
        let user = certificate.primary_user_id().unwrap_or_default();
        let (name, email) = split(user).ok_or_else(|| unfit("userid does not end with email"))?;
        let mut subject = DistinguishedName::new();
        if !name.is_empty() {
            subject.push(DnType::CommonName, cut(name, NAME_BYTES_MAX));
        }
        let email = cut(email, EMAIL_BYTES_MAX);
        let address = match email.as_str().try_into() {
            Ok(address) => DnValue::Ia5String(address),
            Err(_) => DnValue::Utf8String(email),
        };
        subject.push(DnType::CustomDnType(EMAIL.to_vec()), address);
        let mut params = CertificateParams::default();
        params.distinguished_name = subject;
        params.serial_number = Some(SerialNumber::from_slice(&authority::serial()?));
        params.not_before = time(i64::from(certificate.created()))?;
        params.not_after = time(ends)?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning];
        params.use_authority_key_identifier_extension = true;
        let algorithm = match hash {
            HashAlgorithm::Sha512 => &rcgen::PKCS_RSA_SHA512,
            HashAlgorithm::Sha256 | HashAlgorithm::Sha384 => &rcgen::PKCS_RSA_SHA256,
        };
        let mut unsigned = Self { params, public, algorithm, to_be_signed: Vec::new() };
        let with_nothing = unsigned.written(&[])?;
        let (_, read) = X509Certificate::from_der(&with_nothing.1).map_err(|error| failed(&error))?;
        unsigned.to_be_signed = read.tbs_certificate.as_ref().to_vec();
        Ok(unsigned)
    }

    /// What is hashed and signed.
    pub(super) fn to_be_signed(&self) -> &[u8] {
        &self.to_be_signed
    }

    /// The certificate with this signature, which was verified; PEM.
    ///
    /// # Errors
    /// It came out as something else than what was signed.
    pub(super) fn finish(&self, signature: &[u8]) -> Result<String, Failure> {
        let (pem, der) = self.written(signature)?;
        let (_, read) = X509Certificate::from_der(&der).map_err(|error| failed(&error))?;
        if read.tbs_certificate.as_ref() == self.to_be_signed
            && read.signature_value.data.as_ref() == signature
        {
            return Ok(pem);
        }
        Err(failed(&"it changed while it was signed"))
    }

    /// PEM and DER with these bytes for a signature.
    fn written(&self, signature: &[u8]) -> Result<(String, Vec<u8>), Failure> {
        let key = Elsewhere { public: &self.public, algorithm: self.algorithm, signature };
        let certificate = self.params.self_signed(&key).map_err(|error| failed(&error))?;
        Ok((certificate.pem(), certificate.der().to_vec()))
    }
}

/// A key whose signature is there already, or not yet.
struct Elsewhere<'a> {
    public: &'a [u8],
    algorithm: &'static SignatureAlgorithm,
    signature: &'a [u8],
}

impl PublicKeyData for Elsewhere<'_> {
    fn der_bytes(&self) -> &[u8] {
        self.public
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.algorithm
    }
}

impl SigningKey for Elsewhere<'_> {
    fn sign(&self, _: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        Ok(self.signature.to_vec())
    }
}

/// Name and address of `Name (comment) <address>`.
fn split(user: &str) -> Option<(&str, &str)> {
    let (name, address) = user.strip_suffix('>')?.rsplit_once('<')?;
    (!address.is_empty()).then(|| (name.trim_end(), address))
}

/// Texts that are too long end with dots.
fn cut(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let len = text.floor_char_boundary(bytes_max.saturating_sub(CUT.len()));
    format!("{}{CUT}", text.get(..len).unwrap_or_default())
}

fn time(unix_s: i64) -> Result<OffsetDateTime, Failure> {
    OffsetDateTime::from_unix_timestamp(unix_s).map_err(|error| failed(&error))
}

fn failed(error: &dyn core::fmt::Display) -> Failure {
    Failure::failed(format!("the certificate cannot be made: {error}"), "Please report it.")
}
