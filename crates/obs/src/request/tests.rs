//! Tests of requests that need no captured bytes: framing in pieces, limits, users, both sides of every form.

use super::*;
use crate::digest::Class;

fn whole(bytes: &[u8]) -> Result<Request, Refusal> {
    match Parser::new().push(bytes) {
        Progress::Done(result) => result,
        Progress::More(more) => panic!("{more} bytes more"),
    }
}

fn refused(bytes: &[u8]) -> String {
    whole(bytes).unwrap_err().to_string()
}

fn new_form(arguments: &[&[u8]]) -> Vec<u8> {
    let two = |len: usize| u16::try_from(len).unwrap().to_be_bytes();
    let mut payload = two(arguments.len()).to_vec();
    payload.extend(arguments.iter().flat_map(|argument| two(argument.len())));
    payload.extend(arguments.concat());
    [&two(payload.len())[..], &[0, 0], &payload].concat()
}

fn old_form(user: &[u8], argument: &[u8]) -> Vec<u8> {
    let two = |len: usize| u16::try_from(len).unwrap().to_be_bytes();
    [&two(user.len())[..], &two(argument.len()), user, argument].concat()
}

#[test]
fn a_request_in_pieces_is_done_with_its_last_byte_and_not_before() {
    for bytes in [vec![0; 4], old_form(b"user", b"PUBKEY"), new_form(&[b"ping", b""])] {
        let mut parser = Parser::new();
        for (at, byte) in bytes.iter().enumerate() {
            let progress = parser.push(&[*byte]);
            let missing = bytes.len() - at - 1;
            match progress {
                Progress::More(more) => assert!(more >= 1 && more <= missing, "{at}"),
                Progress::Done(done) => assert!(missing == 0 && done.unwrap().to_bytes() == bytes),
            }
        }
        assert_eq!(parser.push(b"x"), Progress::Done(Err(Refusal::SizeMismatch)));
        assert_eq!(
            Parser::new().push(&[&bytes[..], &[0]].concat()),
            Progress::Done(Err(Refusal::SizeMismatch))
        );
    }
}

#[test]
fn a_request_that_ends_early_is_refused_by_how_far_it_came() {
    let mut parser = Parser::new();
    assert_eq!(parser.cut_short().to_string(), "zero size packet");
    assert_eq!(parser.push(&[]), Progress::More(4));
    assert_eq!(parser.push(&[0]), Progress::More(3));
    assert_eq!(parser.cut_short().to_string(), "packet too small");
    assert_eq!(parser.push(&[1, 0, 0]), Progress::More(1));
    assert_eq!(parser.cut_short().to_string(), "packet read error");
}

#[test]
fn a_request_above_the_limit_is_counted_to_its_end_and_not_kept() {
    let mut parser = Parser::new();
    assert_eq!(parser.push(&[0xff; 4]), Progress::More(131_070));
    for _ in 0..131_069 / 3 {
        assert!(matches!(parser.push(&[0x41; 3]), Progress::More(_)));
    }
    assert!(parser.kept.capacity() <= 2 * (REQUEST_HEAD_BYTES + REQUEST_BYTES_MAX));
    assert_eq!(parser.push(&[0x41; 3]), Progress::Done(Err(Refusal::RequestTooLarge { size: 131_070 })));
    assert_eq!(parser.kept.len(), REQUEST_HEAD_BYTES + REQUEST_BYTES_MAX);
}

#[test]
fn nothing_is_allocated_for_a_length_that_is_only_claimed() {
    let mut parser = Parser::new();
    assert_eq!(parser.push(&[0xff, 0xff, 0, 0, 0xff, 0xff]), Progress::More(65_533));
    assert!(parser.kept.capacity() < 64);
}

#[test]
fn lengths_that_lie_are_refused() {
    assert_eq!(refused(&[0, 1, 0, 0, 0]), "packet too small");
    assert_eq!(refused(&[0, 2, 0, 0, 0, 1]), "packet too small");
    assert_eq!(refused(&[0, 2, 0, 0, 0xff, 0xff]), "packet too small");
    assert_eq!(refused(&[0, 3, 0, 0, 0, 1, 0]), "packet too small");
    for (argument, there) in [(1, 0), (0, 1), (0xff, 3)] {
        let payload = [&[0, 1, 0, argument][..], &vec![b'a'; there]].concat();
        let bytes = [&[0, u8::try_from(payload.len()).unwrap(), 0, 0][..], &payload].concat();
        assert_eq!(
            refused(&bytes),
            format!(
                "packet size mismatch: its arguments have {argument} bytes by their lengths, and {there} are there"
            )
        );
    }
}

#[test]
fn as_many_arguments_as_the_limit_are_read_and_more_refused() {
    let many = vec![&b""[..]; ARGUMENTS_MAX];
    assert_eq!(whole(&new_form(&many)).unwrap().arguments().len(), ARGUMENTS_MAX - 2);
    let more = vec![&b""[..]; ARGUMENTS_MAX + 1];
    assert_eq!(refused(&new_form(&more)), "too many arguments: 1241, at most 1240");
    let most = vec![&b""[..]; 32_766];
    assert_eq!(refused(&new_form(&most)), "too many arguments: 32766, at most 1240");
    let bytes = [&[0xff, 0xff, 0, 0, 0xff, 0xff][..], &[0; 65_533]].concat();
    assert_eq!(refused(&bytes), "packet too small");
}

#[test]
fn control_characters_and_other_than_utf_8_are_malformed_in_every_argument() {
    for bad in [&b"a\x01"[..], b"\x00", b"a\n", b"\x1f", b"\x7f", b"\xff", b"\xc3", b"\xed\xa0\x80"] {
        for at in 0..4 {
            let mut arguments = [&b"sign"[..], b"user", b"x", b"y"];
            arguments[at] = bad;
            assert_eq!(refused(&new_form(&arguments)), "malformed argument", "{bad:?} {at}");
        }
        assert_eq!(refused(&old_form(bad, b"x")), "malformed argument");
        assert_eq!(refused(&old_form(b"x", bad)), "malformed argument");
    }
    assert_eq!(
        whole(&new_form(&[b"keygen", b"u", "J\u{f6}rg".as_bytes()])).unwrap().arguments(),
        ["J\u{f6}rg"]
    );
}

#[test]
fn users_that_could_be_paths_are_illegal() {
    for user in ["/", "a/b", "../x", ".", ".hidden"] {
        for bytes in [
            new_form(&[b"sign", user.as_bytes(), b"x"]),
            new_form(&[b"sign", format!("SHA256:{user}").as_bytes(), b"x"]),
            old_form(user.as_bytes(), b"PUBKEY"),
            old_form(user.as_bytes(), b"SHA256:PUBKEY"),
        ] {
            assert_eq!(refused(&bytes), format!("illegal user {user}"));
        }
    }
    assert!(whole(&old_form(b"a.b", b"PUBKEY")).is_ok());
}

#[test]
fn the_hash_stands_before_the_user_or_in_the_old_form_before_the_argument() {
    for (bytes, verb, hash, user, arguments) in [
        (new_form(&[b"sign", b"SHA256:u", b"x", b"y"]), Verb::Sign, Some("SHA256"), "u", &["x", "y"][..]),
        (new_form(&[b"sign", b"SHA1:openssl:k", b"x"]), Verb::Sign, Some("SHA1"), "openssl:k", &["x"]),
        (new_form(&[b"sign", b":u", b"x"]), Verb::Sign, Some(""), "u", &["x"]),
        (new_form(&[b"sign", b"u", b"SHA256:x"]), Verb::Sign, None, "u", &["SHA256:x"]),
        (new_form(&[b"ping"]), Verb::Ping, None, "", &[]),
        (new_form(&[]), Verb::Unknown, None, "", &[]),
        (new_form(&[b"privileged", b"-", b"nonce"]), Verb::Privileged, None, "-", &["nonce"]),
        (old_form(b"u", b"SHA256:PUBKEY"), Verb::Pubkey, Some("SHA256"), "u", &[]),
        (old_form(b"u", b"PUBKEYS"), Verb::Sign, None, "u", &["PUBKEYS"]),
        (old_form(b"", b"SHA512:x:y"), Verb::Sign, Some("SHA512"), "", &["x:y"]),
        (old_form(b"SHA512:u", b"x"), Verb::Sign, Some("SHA512"), "u", &["x"]),
        (old_form(b"a:u", b"SHA256:x"), Verb::Sign, Some("SHA256"), "a:u", &["x"]),
        (old_form(b"u", b":x"), Verb::Sign, Some(""), "u", &["x"]),
        (vec![0; 4], Verb::Ping, None, "", &[]),
    ] {
        let request = whole(&bytes).unwrap();
        assert_eq!((request.verb(), request.hash_name(), request.user()), (verb, hash, user));
        assert_eq!(request.arguments(), arguments);
        assert_eq!(request.to_bytes(), bytes);
    }
}

#[test]
fn what_a_client_asks_for_a_server_reads() {
    for user in ["user@example.org", "openssl:key", ""] {
        for hash in Hash::ALL {
            let one = DigestArgument::new(hash, &vec![7; hash.digest_len()], Class::Text, 9).unwrap();
            for (request, verb, arguments) in [
                (Request::pubkey(user, hash).unwrap(), Verb::Pubkey, vec![]),
                (Request::sign(user, core::slice::from_ref(&one)).unwrap(), Verb::Sign, vec![one.to_text()]),
                (
                    Request::sign(user, &[one.clone(), one.clone()]).unwrap(),
                    Verb::Sign,
                    vec![one.to_text(); 2],
                ),
            ] {
                let read = whole(&request.to_bytes()).unwrap();
                assert_eq!((read.verb(), read.user()), (verb, user));
                assert_eq!(Hash::from_request(read.hash_name()), Ok(hash));
                assert_eq!(read.arguments(), arguments);
            }
        }
    }
}

#[test]
fn requests_that_no_server_takes_are_not_made() {
    let digest = |hash: Hash| DigestArgument::probe(hash);
    let refusal = |result: Result<Request, Error>| match result {
        Err(Error::Request { source }) => source.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(refusal(Request::sign("u", &[])), "sign: at least one arguments required");
    assert_eq!(refusal(Request::pubkey("../u", Hash::Sha1)), "illegal user ../u");
    assert_eq!(refusal(Request::pubkey("u\n", Hash::Sha1)), "malformed argument");
    assert!(
        refusal(Request::sign("u", &[digest(Hash::Sha1), digest(Hash::Sha256)]))
            .contains("unsupported length")
    );
    let size = "packet too big: 65542 bytes, at most 65535";
    assert_eq!(refusal(Request::pubkey(&"u".repeat(65_536), Hash::Sha1)), size);
    assert_eq!(
        refusal(Request::sign("u", &vec![digest(Hash::Sha512); 1000])),
        "packet too big: 141018 bytes, at most 65535"
    );
    assert_eq!(
        refusal(Request::sign("u", &vec![digest(Hash::Sha1); 2000])),
        "too many arguments: 2002, at most 1240"
    );
}

#[test]
fn the_contents_of_arguments_are_not_shown_for_debugging() {
    let text = format!("{:?}", whole(&new_form(&[b"privsign", b"u", b"8501"])).unwrap());
    assert!(!text.contains("8501") && text.contains("privsign"), "{text}");
}
