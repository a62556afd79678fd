//! The never-log list: what no line holds, whoever writes it. The second line of defence; the first is that secrets
//! have types that cannot be shown.

/// Words that a field's name must not hold, in any case of letters. One list for all processes.
pub(super) const NAMES: &[&str] = &[
    "authorization",
    "blob",
    "ciphertext",
    "content",
    "cookie",
    "credential",
    "digest",
    "encapsulated",
    "hpke",
    "key_bytes",
    "key_material",
    "midstate",
    "packet",
    "passphrase",
    "password",
    "passwd",
    "pem",
    "private",
    "salt",
    "sealed",
    "secret",
    "seed",
    "ticket",
    "token",
];

/// What a value must not hold: the marks of a secret that was formatted whole.
pub(super) const MARKS: &[&str] = &["PRIVATE KEY", "Bearer ", "Basic "];

/// Characters of an unbroken run of hexadecimal or base64 digits: longer than any fingerprint, hash, UUID or trace
/// id, and shorter than a midstate or a private key of RSA.
pub(super) const RUN_MAX: usize = 95;

/// Numbers of a list in brackets (`[12, 255, ...]`), which is how Rust shows bytes.
pub(super) const LIST_MAX: usize = 15;

/// In the place of what is left out.
pub(super) const WITHHELD: &str = "[withheld]";

/// Whether the value of a field of this name is left out, whatever it is.
pub(super) fn withholds_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace(['-', '.'], "_");
    NAMES.iter().any(|word| name.contains(word))
}

/// Whether a text is left out for what is in it.
pub(super) fn withholds_text(text: &str) -> bool {
    MARKS.iter().any(|mark| text.contains(mark)) || has_long_run(text) || has_long_list(text)
}

/// A path is no run: it starts with a slash.
fn has_long_run(text: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '+' | '/' | '='))
        .any(|run| run.len() > RUN_MAX && !run.starts_with('/'))
}

fn has_long_list(text: &str) -> bool {
    text.split('[').skip(1).any(|list| {
        let list = list.split_once(']').map_or(list, |(list, _)| list);
        let numbers = list.split(',').map(str::trim).take_while(|item| {
            let digits = item.strip_prefix("0x").unwrap_or(item);
            !digits.is_empty() && digits.len() <= 3 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
        });
        numbers.count() > LIST_MAX
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_the_list_is_withheld_alone_inside_others_and_in_capitals() {
        for name in NAMES {
            for text in [
                (*name).to_owned(),
                format!("the_{name}"),
                format!("{name}_bytes"),
                name.to_uppercase(),
                name.replace('_', "-"),
            ] {
                assert!(withholds_name(&text), "{text}");
            }
        }
    }

    #[test]
    fn names_that_lines_need_are_not_withheld() {
        for name in [
            "key",
            "root_key",
            "data_key",
            "fingerprint",
            "principal",
            "peer",
            "request_id",
            "trace_id",
            "items",
            "signed",
            "outcome",
            "code",
            "log_first",
            "log_last",
            "queue_ms",
            "signer_ms",
            "store_ms",
            "total_ms",
            "error",
            "path",
            "state",
            "generation",
            "message",
        ] {
            assert!(!withholds_name(name), "{name}");
        }
    }

    #[test]
    fn every_mark_is_withheld() {
        for mark in MARKS {
            assert!(withholds_text(&format!("before {mark}after")), "{mark}");
        }
    }

    #[test]
    fn bytes_are_withheld_however_they_are_written() {
        let bytes: Vec<u8> = (0..=255).collect();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(withholds_text(&hex));
        assert!(withholds_text(&format!("value {hex} of a key")));
        assert!(withholds_text(&format!("Key({bytes:?})")), "decimal");
        assert!(withholds_text(&format!("{bytes:02x?}")), "hexadecimal");
        assert!(withholds_text(&format!("{:?}", &bytes[..32])), "a key of 32 bytes");
    }

    #[test]
    fn hashes_ids_paths_and_short_lists_are_not() {
        for text in [
            "4f2a".repeat(16).as_str(),
            "/srv/repository/with/a/very/long/path/below/which/there/are/many/more/folders/in/which/files/lie/somewhere/far",
            "[1, 2, 3]",
            "0198f3c2-7a1b-7c3d-8e4f-5a6b7c8d9e0f",
            "cannot open the store",
        ] {
            assert!(!withholds_text(text), "{text}");
        }
    }
}
