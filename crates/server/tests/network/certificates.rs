//! An authority and what it signs.

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams,
    SerialNumber,
};
use sealwright_server::tls::Material;
use time::{Duration, OffsetDateTime};

pub(crate) struct Authority {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key.
#[derive(Clone)]
pub(crate) struct Certified {
    pub(crate) pem: String,
    pub(crate) key_pem: String,
}

/// What a certificate says; the default is a client's.
pub(crate) struct Wanted {
    pub(crate) names: Vec<String>,
    pub(crate) serial: Vec<u8>,
    pub(crate) usages: Vec<ExtendedKeyUsagePurpose>,
    pub(crate) not_before: OffsetDateTime,
    pub(crate) not_after: OffsetDateTime,
}

pub(crate) fn from_now(seconds: i64) -> OffsetDateTime {
    OffsetDateTime::now_utc() + Duration::seconds(seconds)
}

impl Wanted {
    pub(crate) fn client(name: &str) -> Self {
        Self {
            names: vec![name.to_owned()],
            serial: vec![0x0a, 0x1b],
            usages: vec![ExtendedKeyUsagePurpose::ClientAuth],
            not_before: from_now(-3600),
            not_after: from_now(86_400),
        }
    }
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = name(&["Test authority".to_owned()]);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    pub(crate) fn client(&self, name: &str) -> Certified {
        self.certify(Wanted::client(name))
    }

    pub(crate) fn certify(&self, wanted: Wanted) -> Certified {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = name(&wanted.names);
        params.serial_number = Some(SerialNumber::from(wanted.serial));
        params.extended_key_usages = wanted.usages;
        params.not_before = wanted.not_before;
        params.not_after = wanted.not_after;
        self.sign(&params)
    }

    pub(crate) fn server(&self, not_after: OffsetDateTime, names: &[&str]) -> Certified {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.not_before = from_now(-86_400);
        params.not_after = not_after;
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Certified {
        let key = KeyPair::generate().unwrap();
        let pem = params.signed_by(&key, &self.issuer).unwrap().pem();
        Certified { pem, key_pem: key.serialize_pem() }
    }

    /// A list that revokes these numbers.
    pub(crate) fn revocations(&self, serials: &[&[u8]]) -> String {
        let revoked = serials.iter().map(|serial| RevokedCertParams {
            serial_number: SerialNumber::from_slice(serial),
            revocation_time: from_now(-60),
            reason_code: None,
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update: from_now(-60),
            next_update: from_now(86_400),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).unwrap().pem().unwrap()
    }

    /// What a server shows and takes.
    pub(crate) fn material(&self) -> Material {
        material(&self.server(from_now(86_400), &["localhost", "127.0.0.1"]), &self.pem, None)
    }
}

pub(crate) fn material(server: &Certified, client_ca: &str, crl: Option<&str>) -> Material {
    Material {
        certificate_pem: server.pem.clone().into_bytes(),
        key_pem: server.key_pem.clone().into_bytes(),
        client_ca_pem: client_ca.to_owned().into_bytes(),
        crl_pem: crl.map(|crl| crl.to_owned().into_bytes()),
    }
}

fn name(common: &[String]) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    // The library keeps one value a type, and takes the same type under two names.
    let types = [DnType::CommonName, DnType::CustomDnType(vec![2, 5, 4, 3])];
    for (kind, common) in types.into_iter().zip(common) {
        name.push(kind, common.clone());
    }
    name
}
