//! Requests for keys as copr-keygen takes them. Any body is read or refused; what is read has a name that its rule allows,
//! a length that keys have, and a user id of one line with one address in it, which is the name.

use http::HeaderMap;
use sealwright_crypto::algorithm::KeyAlgorithm;
use sealwright_proto::convert::keys::{CreateKey, KeySource};
use sealwright_server::keygen::{ObsDigest, Query, Shape};

use crate::choices::Choices;

const CHARSETS: [&str; 4] = ["utf-8", "us-ascii", "iso-8859-1", "utf-16"];
const KINDS: [&str; 3] = ["application/json", "application/x-www-form-urlencoded", "multipart/form-data; x"];

const SHAPE: Shape = Shape { key_length: 3072, obs_digest: ObsDigest::Sha2, obs_digest_on_primary: false };

pub(crate) fn run(data: &[u8]) {
    let mut input = Choices::new(data);
    let mut headers = HeaderMap::new();
    headers.insert("charset", input.one_of(&CHARSETS).parse().unwrap());
    let kind = input.one_of(&KINDS);
    headers.insert("content-type", kind.parse().unwrap());
    let Ok(query) = Query::parse(&headers, input.rest()) else { return };
    assert_eq!(kind, KINDS[0], "a form was read");
    let name = query.name().as_str();
    let (owner, rest) = name.trim_start_matches('@').split_once('#').expect("a name without a project");
    assert!(!owner.is_empty() && rest.matches('@').count() == 1, "{name}");
    let Ok(create) = query.create(&SHAPE) else { return };
    assert_eq!(create.name.as_str(), name);
    let KeySource::Software(KeyAlgorithm::Rsa(2048 | 3072 | 4096)) = create.spec.source else {
        panic!("another key: {create:?}");
    };
    let user_id = &create.spec.user_id;
    assert!(user_id.ends_with(&format!(" <{name}>")), "{user_id:?}");
    assert!(user_id.matches(['<', '>']).count() == 2 && !user_id.starts_with(' '), "{user_id:?}");
    assert!(!user_id.chars().any(|char| char.is_control() || ('\u{2028}'..='\u{202e}').contains(&char)));
    assert_eq!(
        CreateKey::parse(create.clone().into_wire()).unwrap(),
        create,
        "the signer reads another request"
    );
}
