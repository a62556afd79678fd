//! One test a rule of the format: the good packet is accepted, and the one that breaks the rule is not.

use super::*;

/// A version 4 RSA signature with this hashed area and value.
fn v4(hashed: &[u8], key_algorithm: u8, value: &[u8]) -> Vec<u8> {
    let len = u16::try_from(hashed.len()).unwrap().to_be_bytes();
    let body = [&[4, 0, key_algorithm, 8][..], &len, hashed, &[0, 0, 0xab, 0xcd], value].concat();
    framing::write_packet(tag::SIGNATURE, &body)
}

const CREATED: [u8; 6] = [5, 2, 0, 0, 0, 7];

/// An MPI of 2048 bits.
fn number() -> Vec<u8> {
    [&[8, 0][..], &[0xff; 256]].concat()
}

fn reason(bytes: &[u8]) -> String {
    SignaturePacket::parse(bytes).unwrap_err().to_string()
}

#[test]
fn a_minimal_packet_is_read() {
    let bytes = v4(&CREATED, 1, &number());
    let packet = SignaturePacket::parse(&bytes).unwrap();
    assert_eq!((packet.version(), packet.signature_type(), packet.key_algorithm_id()), (4, 0, 1));
    assert_eq!((packet.created(), packet.expires(), packet.is_weak()), (Some(7), None, None));
    assert_eq!(packet.digest_prefix(), [0xab, 0xcd]);
    assert_eq!(packet.trailer(), [&[4, 0, 1, 8, 0, 6][..], &CREATED, &[4, 0xff, 0, 0, 0, 12]].concat());
}

#[test]
fn old_and_new_headers_say_the_same() {
    let new = v4(&CREATED, 1, &number());
    let body = &new[3..];
    let old = [&[0x89][..], &u16::try_from(body.len()).unwrap().to_be_bytes(), body].concat();
    let old = SignaturePacket::parse(&old).unwrap();
    let new = SignaturePacket::parse(&new).unwrap();
    assert_eq!(SignaturePacket { whole: new.whole.clone(), ..old }, new);
}

#[test]
fn truncation_anywhere_is_refused() {
    let v6 = {
        let body =
            [&[6, 0, 27, 8, 0, 0, 0, 6][..], &CREATED, &[0, 0, 0, 0, 1, 2, 16], &[3; 16], &[4; 64]].concat();
        framing::write_packet(tag::SIGNATURE, &body)
    };
    let v3 = {
        let body = [&[3, 5, 0, 0, 0, 0, 7][..], &[8; 8], &[1, 8, 1, 2], &number()].concat();
        framing::write_packet(tag::SIGNATURE, &body)
    };
    for bytes in [v4(&CREATED, 1, &number()), v6, v3] {
        let packet = SignaturePacket::parse(&bytes).unwrap();
        assert_eq!(packet.created(), Some(7));
        for len in 0..bytes.len() {
            assert!(SignaturePacket::parse(&bytes[..len]).is_err(), "{len}");
        }
        // The same with a header that fits what is left.
        let body = &bytes[bytes.len() - packet_body_len(&bytes)..];
        for len in 0..body.len() {
            let short = framing::write_packet(tag::SIGNATURE, &body[..len]);
            assert!(SignaturePacket::parse(&short).is_err(), "{len}");
        }
    }
}

fn packet_body_len(bytes: &[u8]) -> usize {
    framing::split_first(WHAT, bytes).unwrap().0.body.len()
}

#[test]
fn exactly_one_packet_and_of_the_right_type() {
    let one = v4(&CREATED, 1, &number());
    assert!(reason(&[one.clone(), vec![0]].concat()).contains("follows"));
    assert!(reason(&[one.clone(), one.clone()].concat()).contains("follows"));
    assert_eq!(SignaturePacket::parse_many(&[one.clone(), one.clone()].concat()).unwrap().len(), 2);
    assert!(SignaturePacket::parse_many(&[]).is_err());
    assert!(matches!(
        SignaturePacket::parse_many(&one.repeat(PACKETS_MAX + 1)),
        Err(Error::TooLarge { unit: "packets", .. })
    ));
    assert!(reason(&framing::write_packet(tag::USER_ID, b"x")).contains("another type"));
}

#[test]
fn packets_over_the_limit_are_refused_by_size() {
    let bytes = framing::write_packet(tag::SIGNATURE, &vec![4; PACKET_BYTES_MAX]);
    assert!(matches!(SignaturePacket::parse(&bytes), Err(Error::TooLarge { unit: "bytes", .. })));
}

#[test]
fn other_versions_are_unsupported_and_named() {
    for version in [0, 2, 5, 7, 255] {
        let bytes = framing::write_packet(tag::SIGNATURE, &[version; 40]);
        assert!(matches!(
            SignaturePacket::parse(&bytes),
            Err(Error::Unsupported { what: "signature version", name }) if name == version.to_string()
        ));
    }
}

#[test]
fn mpis_must_be_minimal_and_whole() {
    let with = |value: &[u8]| v4(&CREATED, 1, value);
    assert!(reason(&with(&[&[8, 0, 0][..], &[0xff; 255]].concat())).contains("leading zeros"));
    assert!(reason(&with(&[&[8, 0, 0x7f][..], &[0xff; 255]].concat())).contains("leading zeros"));
    assert!(reason(&with(&[&[7, 0xff][..], &[0xff; 256]].concat())).contains("more bits"));
    assert!(reason(&with(&[0, 0])).contains("zero"));
    assert!(reason(&with(&[&[0x40, 1][..], &[0xff; 2049]].concat())).contains("16384"));
    assert!(reason(&with(&[number(), vec![0]].concat())).contains("follows the signature value"));
    assert!(reason(&with(&number()[..200])).contains("truncated"));
    // A value that is really shorter is minimal with a smaller count.
    assert!(SignaturePacket::parse(&with(&[&[7, 0xff, 0x7f][..], &[0xff; 255]].concat())).is_ok());
}

#[test]
fn values_have_the_shape_of_their_algorithm() {
    let two = [&[0, 1, 1, 0, 2, 3][..]].concat();
    for algorithm in [17, 19, 20, 22] {
        assert!(SignaturePacket::parse(&v4(&CREATED, algorithm, &two)).is_ok());
        assert!(SignaturePacket::parse(&v4(&CREATED, algorithm, &two[..3])).is_err());
    }
    for (algorithm, len) in [(27, 64), (28, 114)] {
        assert!(SignaturePacket::parse(&v4(&CREATED, algorithm, &vec![1; len])).is_ok());
        assert!(SignaturePacket::parse(&v4(&CREATED, algorithm, &vec![1; len - 1])).is_err());
        assert!(SignaturePacket::parse(&v4(&CREATED, algorithm, &vec![1; len + 1])).is_err());
    }
    for algorithm in [2, 16, 18, 21, 25, 26] {
        assert!(reason(&v4(&CREATED, algorithm, &two)).contains("cannot sign"));
    }
    assert!(SignaturePacket::parse(&v4(&CREATED, 99, b"whatever")).is_ok());
}

#[test]
fn a_version_6_salt_has_the_length_of_its_hash() {
    let with = |hash: u8, salt: usize| {
        let len = u8::try_from(salt).unwrap();
        let body =
            [&[6, 0, 27, hash, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, len][..], &vec![3; salt], &[4; 64]].concat();
        SignaturePacket::parse(&framing::write_packet(tag::SIGNATURE, &body))
    };
    for (hash, salt) in [(8, 16), (9, 24), (10, 32)] {
        assert_eq!(with(hash, salt).unwrap().salt(), Some(&vec![3; salt][..]));
        assert!(with(hash, salt - 1).is_err() && with(hash, salt + 1).is_err() && with(hash, 0).is_err());
    }
}

#[test]
fn subpackets_must_fill_their_area_exactly() {
    let with = |area: &[u8]| reason(&v4(area, 1, &number()));
    assert!(with(&[0]).contains("empty"));
    assert!(with(&[5, 2, 0, 0, 0]).contains("longer than its area"));
    assert!(with(&[192]).contains("longer than its area"));
    assert!(with(&[255, 0, 0]).contains("longer than its area"));
    assert!(with(&[255, 0xff, 0xff, 0xff, 0xff, 2]).contains("longer than its area"));
    assert!(with(&[4, 2, 0, 0, 0]).contains("four bytes"));
    assert!(with(&[4, 3, 0, 0, 0]).contains("four bytes"));
    assert!(with(&[8, 16, 0, 0, 0, 0, 0, 0, 0]).contains("eight bytes"));
    assert!(with(&[1, 33]).contains("fingerprint"));
    assert!(with(&[3, 33, 4, 0]).contains("fingerprint"));
    assert!(with(&[3, 33, 6, 0]).contains("fingerprint"));
    // A length may be written longer than needed; the hash covers it as it is.
    let long = [&[255, 0, 0, 0, 5, 2, 0, 0, 0, 7][..], &[192, 0, 100][..], &[0; 191]].concat();
    assert_eq!(SignaturePacket::parse(&v4(&long, 1, &number())).unwrap().created(), Some(7));
    let area = v4(&CREATED, 1, &number());
    let mut past = area;
    past[7] = 0xff;
    assert!(reason(&past).contains("longer than the packet"));
}

#[test]
fn two_different_times_are_ambiguous() {
    let other = [5, 2, 0, 0, 0, 8];
    assert!(reason(&v4(&[CREATED, other].concat(), 1, &number())).contains("twice"));
    assert!(SignaturePacket::parse(&v4(&[CREATED, CREATED].concat(), 1, &number())).is_ok());
}

#[test]
fn weakness_shows_in_the_packet() {
    let weak = |hash: u8, algorithm: u8, value: &[u8]| {
        let mut bytes = v4(&CREATED, algorithm, value);
        let at = bytes.len() - packet_body_len(&bytes) + 3;
        bytes[at] = hash;
        SignaturePacket::parse(&bytes).unwrap().is_weak()
    };
    assert_eq!(weak(8, 1, &number()), None);
    for (hash, word) in [(1, "MD5"), (2, "SHA-1"), (3, "RIPEMD")] {
        assert!(weak(hash, 1, &number()).unwrap().contains(word));
    }
    assert!(weak(8, 17, &[0, 1, 1, 0, 1, 1]).unwrap().contains("DSA"));
    let rsa1024 = [&[4, 0][..], &[0xff; 128]].concat();
    assert!(weak(8, 1, &rsa1024).unwrap().contains("1024"));
    // 2048-bit keys give values that are a few bytes shorter now and then.
    let short = [&[7, 0xc8][..], &[0xff; 249]].concat();
    assert_eq!(weak(8, 1, &short), None);
}
