//! Certificates and keyrings: any bytes are read or refused within the limits, and what is read is written, binary and
//! armored, and read again as the same. No key gets more time by a value that it did not make.

use sealwright_crypto::openpgp::certificate::{
    CERTIFICATES_MAX, Certificate, Component, Keyring, SUBKEYS_MAX, USER_IDS_MAX,
};
use sealwright_crypto::openpgp::extension::Extension;

/// 2026-12-01.
const NOW: i64 = 1_796_083_200;

pub(crate) fn run(data: &[u8]) {
    let one = Certificate::parse(data);
    let many = Keyring::parse_many(data);
    if let Ok(certificate) = &one {
        look(certificate);
        assert_eq!(many.as_ref().unwrap().certificates().len(), 1, "a certificate is no keyring");
    }
    if let Ok(keyring) = &many {
        let count = keyring.certificates().len();
        assert!((1..=CERTIFICATES_MAX).contains(&count), "over the limit");
        for certificate in keyring.certificates() {
            let (found, _) = keyring.find(&certificate.fingerprint()).unwrap();
            assert!(found.find(&certificate.fingerprint()).is_some(), "the wrong certificate was found");
            if count > 1 {
                look(certificate);
            }
        }
    }
}

fn look(certificate: &Certificate) {
    let fingerprint = certificate.fingerprint();
    let components = certificate.components();
    assert!(components.len() <= SUBKEYS_MAX + 1 && certificate.user_ids().len() <= USER_IDS_MAX);
    let primary = components.first().unwrap();
    assert!(primary.is_primary() && primary.fingerprint() == fingerprint, "the first is not the primary key");
    let unfit = |component: &&Component| component.unfit_to_sign(NOW).is_some();
    for component in certificate.signing_components(NOW) {
        assert!(!unfit(&component), "an unfit key is offered");
        assert!(component.can_sign() && component.revoked_at(NOW).is_none() && !component.expired_at(NOW));
        assert!(certificate.find(&component.fingerprint()).is_some());
        assert!(certificate.find_by_key_id(component.fingerprint().key_id()).is_some());
    }
    let now = u32::try_from(NOW).unwrap();
    if let Ok(extension) = Extension::new(certificate, now, now + 86_400) {
        assert!(extension.finish(&[0, 1, 1]).is_err(), "more time without its key");
    }
    let _ = (certificate.warnings(), certificate.warnings_at(NOW), certificate.primary_user_id());
    for again in [certificate.to_binary(), certificate.to_armor().into_bytes()] {
        let again = Certificate::parse(&again).unwrap();
        assert_eq!(again.to_binary(), certificate.to_binary(), "writing and reading changed it");
        assert_eq!(again.fingerprint(), fingerprint);
        assert_eq!(again.user_ids(), certificate.user_ids());
        assert_eq!((again.created(), again.expires()), (certificate.created(), certificate.expires()));
        let said = |component: &Component| format!("{component:?}");
        let all = |components: &[Component]| components.iter().map(said).collect::<Vec<_>>();
        assert_eq!(all(again.components()), all(components), "its keys are judged in another way");
    }
}
