//! Every fact of copr-keygen about what a request says, and what is refused on purpose.

use sealwright_crypto::algorithm::KeyAlgorithm;
use sealwright_proto::convert::keys::KeySource;
use serde_json::json;

use super::*;

const fn plain() -> Shape {
    Shape { key_length: 2048, obs_digest: ObsDigest::None, obs_digest_on_primary: false }
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap())).collect()
}

fn asked(body: &Value) -> Result<CreateKey, Bad> {
    Query::parse(&HeaderMap::new(), body.to_string().as_bytes())?.create(&plain())
}

fn with(field: &str, value: Value) -> Result<CreateKey, Bad> {
    let mut body = json!({ "name_real": "foo_bar", "name_email": "foo#bar@copr.example.org" });
    body[field] = value;
    asked(&body)
}

fn why<T>(refused: Result<T, Bad>) -> String {
    refused.map(|_| ()).unwrap_err().to_string()
}

#[test]
fn what_is_left_out_has_the_defaults_of_copr_keygen_and_no_comment() {
    let create = asked(&json!({ "name_real": "foo_bar", "name_email": "foo#bar@copr.example.org" })).unwrap();
    assert_eq!(create.name.as_str(), "foo#bar@copr.example.org");
    assert_eq!(create.spec.user_id, "foo_bar <foo#bar@copr.example.org>");
    assert_eq!(create.spec.source, KeySource::Software(KeyAlgorithm::Rsa(2048)));
    assert_eq!(create.spec.valid_for_s, Some(5 * 365 * 86_400));
    assert!(!create.spec.signing_subkey);
}

#[test]
fn a_comment_stands_in_parentheses() {
    let create = with("name_comment", json!(" of a group ")).unwrap();
    assert_eq!(create.spec.user_id, "foo_bar (of a group) <foo#bar@copr.example.org>");
    for nothing in [json!(null), json!(""), json!("  ")] {
        assert_eq!(with("name_comment", nothing).unwrap().spec.user_id, "foo_bar <foo#bar@copr.example.org>");
    }
}

#[test]
fn names_of_projects_are_told_from_others_as_copr_keygen_does() {
    for good in [
        "frostyx#foo@copr.fedorahosted.org",
        "@copr#foo@copr.fedorahosted.org",
        "@db-sig#foo@copr.fedorahosted.org",
        "@copr#foo-bar@copr.fedorahosted.org",
        "frostyx#foo.bar@copr.fedorahosted.org",
        "@@x#y@z",
    ] {
        assert!(is_project(good), "{good}");
        assert_eq!(with("name_email", json!(good)).unwrap().name.as_str(), good);
    }
    for bad in [
        "foo",
        "",
        "#",
        "@",
        "user#invalid-email",
        "@copr#copr.fedorahosted.org",
        "user#foo@@copr.fedorahosted.org",
        "@c&pr#foo@copr.fedorahosted.org",
        "user#foo@copr.#!&:.org",
        "#foo@copr.fedorahosted.org",
        "user#foo@copr.fedorahosted.org\n",
        "user\n#foo@copr.fedorahosted.org",
        "us er#foo@copr.fedorahosted.org",
        "user#foo@copr.fedorahosted.org>",
        "us\u{e9}r#foo@copr.fedorahosted.org",
        "user/../..#foo@copr.fedorahosted.org",
        "user#foo@copr.fedorahosted.org\0",
    ] {
        assert!(!is_project(bad), "{bad:?}");
        assert!(why(with("name_email", json!(bad))).starts_with("name_email is not like"), "{bad:?}");
    }
    let long = format!("{}#foo@copr.example.org", "u".repeat(2_000));
    assert!(why(with("name_email", json!(long))).contains("at most 255"));
    for no_text in [json!(null), json!(7), json!(["a#b@c"]), json!({ "a": 1 })] {
        assert_eq!(why(with("name_email", no_text)), "name_email is no text");
    }
}

#[test]
fn nothing_that_ends_a_line_or_an_address_or_hides_comes_into_a_user_id() {
    for field in ["name_real", "name_comment"] {
        for text in [
            "xabcde\nSubkey-Type: RSA",
            "x\ry",
            "x\0y",
            "x\u{1b}[2Jy",
            "x\u{85}y",
            "x\u{9b}y",
            "x\u{2028}y",
            "x\u{202e}y",
            "x\u{2066}y",
            "x\u{200b}y",
            "x\u{feff}y",
            "x <root@example.org>",
            "x> y",
        ] {
            let refused = why(with(field, json!(text)));
            assert!(
                refused.starts_with(field) && refused.contains("no user id may have"),
                "{text:?} {refused}"
            );
        }
        assert!(why(with(field, json!("x".repeat(256)))).contains("255 bytes"));
        for no_text in [json!(7), json!(true), json!(["x"]), json!({ "x": 1 })] {
            assert_eq!(why(with(field, no_text)), format!("{field} is no text"));
        }
    }
    for empty in [json!(""), json!("  "), json!(null)] {
        assert_eq!(why(with("name_real", empty)), "name_real is empty");
    }
    assert!(why(with("name_comment", json!("a) <b@c> ("))).contains("no user id may have"));
    assert!(why(with("name_comment", json!("a) b ("))).contains("parenthesis"));
    let of_others = with("name_real", json!("J\u{e9}r\u{f4}me (home) \u{540d}\u{524d}")).unwrap();
    assert!(of_others.spec.user_id.ends_with("<foo#bar@copr.example.org>"));
}

#[test]
fn a_length_is_honoured_or_refused_and_never_another() {
    for (asked_for, bits) in [
        (json!(2048), 2048),
        (json!(3072), 3072),
        (json!(4096), 4096),
        (json!("4096"), 4096),
        (json!(0), 2048),
        (json!(null), 2048),
        (json!(""), 2048),
    ] {
        let source = with("key_length", asked_for).unwrap().spec.source;
        assert_eq!(source, KeySource::Software(KeyAlgorithm::Rsa(bits)));
    }
    for bad in [
        json!(100),
        json!(1024),
        json!(2049),
        json!(8192),
        json!(-2048),
        json!(2048.5),
        json!("rsa2048"),
        json!(" 2048"),
        json!(true),
        json!([2048]),
        json!(1e300),
        json!("18446744073709551616"),
    ] {
        assert_eq!(
            why(with("key_length", bad.clone())),
            "key_length is none of 2048, 3072 and 4096",
            "{bad}"
        );
    }
}

#[test]
fn expiry_is_read_as_gpg_does() {
    for (text, days) in [
        (json!("5y"), Some(1_825)),
        (json!("10m"), Some(300)),
        (json!("2w"), Some(14)),
        (json!("30d"), Some(30)),
        (json!("30"), Some(30)),
        (json!(30), Some(30)),
        (json!("0"), None),
        (json!(0), None),
        (json!("0y"), None),
        (json!(null), None),
        (json!(""), None),
        (json!("never"), None),
        (json!("none"), None),
    ] {
        let valid = with("expire", text.clone()).unwrap().spec.valid_for_s;
        assert_eq!(valid, days.map(|days: u64| days * 86_400), "{text}");
    }
    assert_eq!(with("expire", json!("seconds=3600")).unwrap().spec.valid_for_s, Some(3_600));
    for bad in [
        json!("137y"),
        json!("5 y"),
        json!("-5y"),
        json!(-5),
        json!(1.5),
        json!("y"),
        json!("5Y"),
        json!("2031-01-01"),
        json!("20310101T000000"),
        json!("seconds="),
        json!("seconds=4294967296"),
        json!("5y\nSubkey-Type: RSA"),
        json!(true),
        json!(["5y"]),
        json!("99999999999999999999y"),
        json!("18446744073709551615y"),
    ] {
        assert!(why(with("expire", bad.clone())).starts_with("expire is no period"), "{bad}");
    }
}

#[test]
fn what_is_necessary_is_named() {
    assert!(why(asked(&json!({ "name_email": "a#b@c" }))).ends_with("parameter `name_real`"));
    assert!(why(asked(&json!({ "name_real": "a" }))).ends_with("parameter `name_email`"));
    for no_object in [json!([]), json!("name_real name_email"), json!(1), json!(null)] {
        assert!(why(asked(&no_object)).contains("no JSON object"), "{no_object}");
    }
}

#[test]
fn a_body_is_json_in_its_charset_whatever_its_type_but_a_form() {
    let body = r#"{"name_real":"J\u00e9","name_email":"a#b@c"}"#.as_bytes();
    let code = |pairs: &[(&'static str, &str)], body: &[u8]| Query::parse(&headers(pairs), body).map(|_| ());
    for kind in ["application/json", "text/plain", "application/octet-stream", "nonsense", ""] {
        code(&[("content-type", kind)], body).unwrap();
    }
    code(&[], body).unwrap();
    for form in [
        "application/x-www-form-urlencoded",
        "Application/X-WWW-Form-Urlencoded; charset=utf-8",
        "multipart/form-data; boundary=x",
    ] {
        assert!(matches!(code(&[("content-type", form)], body), Err(Bad::Form)), "{form}");
    }
    for not_json in [&b""[..], b"{", b"name_real=x", b"\xef\xbb\xbf{}", b"{} {}", &[b'['; 200]] {
        assert!(why(code(&[], not_json)).starts_with("Failed to parse request body: "), "{not_json:?}");
    }
    let latin = b"{\"name_real\":\"J\xe9\",\"name_email\":\"a#b@c\"}";
    assert!(matches!(code(&[], latin), Err(Bad::NotText)));
    let query = Query::parse(&headers(&[("charset", "ISO-8859-1")]), latin).unwrap();
    assert_eq!(query.create(&plain()).unwrap().spec.user_id, "J\u{e9} <a#b@c>");
    assert!(matches!(code(&[("charset", "us-ascii")], latin), Err(Bad::NotText)));
    code(&[("charset", "ascii")], body).unwrap();
    for unknown in ["utf-16", "", "rot13"] {
        assert!(matches!(code(&[("charset", unknown)], body), Err(Bad::Charset)), "{unknown}");
    }
}

#[test]
fn of_two_fields_of_one_name_the_last_counts() {
    let body = br#"{"name_real":"a","name_email":"x#y@z","name_email":"a#b@c"}"#;
    assert_eq!(Query::parse(&HeaderMap::new(), body).unwrap().name().as_str(), "a#b@c");
}

#[test]
fn keys_are_for_digests_of_others_only_where_the_operator_says_so_and_then_on_a_subkey_unless_he_says_that_too()
 {
    let body = br#"{"name_real":"a","name_email":"a#b@c","usages":[2],"signing_subkey":true}"#;
    let query = Query::parse(&HeaderMap::new(), body).unwrap();
    let made = |obs_digest, obs_digest_on_primary| {
        let create = query.create(&Shape { obs_digest, obs_digest_on_primary, ..plain() }).unwrap();
        (create.usages, create.spec.signing_subkey, create.spec.bare_digests_on_primary)
    };
    let (sha2, sha1) = (
        vec![Usage::OpenPgp, Usage::ObsDigest],
        vec![Usage::OpenPgp, Usage::ObsDigest, Usage::ObsDigestSha1],
    );
    assert_eq!(made(ObsDigest::None, false), (vec![Usage::OpenPgp], false, false));
    assert_eq!(made(ObsDigest::Sha2, false), (sha2.clone(), true, false));
    assert_eq!(made(ObsDigest::Sha2, true), (sha2, false, true));
    assert_eq!(made(ObsDigest::Sha1, false), (sha1, true, false));
}
