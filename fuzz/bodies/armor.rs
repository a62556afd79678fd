//! ASCII armor: what is read is written and read again as the same bytes, and any bytes survive the armor.

use sealwright_crypto::openpgp::armor::{Kind, decode_or_binary, encode};

const KINDS: [Kind; 3] = [Kind::PublicKey, Kind::PrivateKey, Kind::Signature];

pub(crate) fn run(data: &[u8]) {
    for kind in KINDS {
        let text = encode(kind, data);
        assert!(text.lines().all(|line| line.len() <= 64), "a line is too long");
        assert_eq!(decode_or_binary(text.as_bytes()).unwrap(), data, "armor changed the bytes");
        let crlf = text.replace('\n', "\r\n");
        assert_eq!(decode_or_binary(crlf.as_bytes()).unwrap(), data, "CRLF changed the bytes");
        let twice = format!("text before\n{text}\ntext between\n{text}");
        assert_eq!(
            decode_or_binary(twice.as_bytes()).unwrap(),
            [data, data].concat(),
            "blocks are not joined"
        );
    }
    let Ok(binary) = decode_or_binary(data) else { return };
    assert!(binary.len() <= data.len(), "more came out than went in");
    if data.first().is_some_and(|first| first & 0x80 != 0 && !data.starts_with(b"\xef\xbb\xbf")) {
        assert_eq!(binary, data, "binary data are not as they came");
    }
}
