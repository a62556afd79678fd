//! The answer to a request as it is kept with the intent, so that a retry gets the same. The bytes:
//!
//! ```text
//! length    field (numbers are big-endian)
//! 1         version, 1
//! 4         number of items, then each
//!   1         1 signed, 2 failed
//!   signed:   4 + n  the signature packet;  8  index of the log entry;  32  its leaf hash
//!   failed:   4  code (the caller's numbers);  4 + n  text, UTF-8
//! ```

use sealwright_tlog::Hash;

use crate::error::Error;

const VERSION: u8 = 1;

/// Most items of one request; the wire allows fewer.
pub const ITEMS_MAX: usize = 4096;

/// Longest packet or text of one item in bytes.
pub const PART_BYTES_MAX: usize = 64 << 10;

/// The final answer to one item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemOutcome {
    /// Signed, and logged.
    Signed {
        /// The signature packet.
        packet: Vec<u8>,
        /// Index of the log entry.
        log_index: u64,
        /// Leaf hash of the log entry.
        leaf_hash: Hash,
    },
    /// Refused for good: a retry under the same request id gets this again.
    Failed {
        /// A number of the caller's table of failures.
        code: u32,
        /// For a person.
        message: String,
    },
}

pub(crate) fn encode(items: &[ItemOutcome]) -> Result<Vec<u8>, Error> {
    if items.len() > ITEMS_MAX {
        return Err(Error::TooLarge { what: "the number of items", size: items.len(), limit: ITEMS_MAX });
    }
    let mut out = vec![VERSION];
    put_len(&mut out, "the number of items", items.len())?;
    for item in items {
        match item {
            ItemOutcome::Signed { packet, log_index, leaf_hash } => {
                out.push(1);
                put_part(&mut out, "a signature packet", packet)?;
                out.extend(log_index.to_be_bytes());
                out.extend(leaf_hash.as_bytes());
            }
            ItemOutcome::Failed { code, message } => {
                out.push(2);
                out.extend(code.to_be_bytes());
                put_part(&mut out, "the text of a failure", message.as_bytes())?;
            }
        }
    }
    Ok(out)
}

fn put_len(out: &mut Vec<u8>, what: &'static str, size: usize) -> Result<(), Error> {
    let limit = PART_BYTES_MAX;
    out.extend(u32::try_from(size).map_err(|_| Error::TooLarge { what, size, limit })?.to_be_bytes());
    Ok(())
}

fn put_part(out: &mut Vec<u8>, what: &'static str, part: &[u8]) -> Result<(), Error> {
    if part.len() > PART_BYTES_MAX {
        return Err(Error::TooLarge { what, size: part.len(), limit: PART_BYTES_MAX });
    }
    put_len(out, what, part.len())?;
    out.extend(part);
    Ok(())
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<ItemOutcome>, Error> {
    read(bytes).ok_or(Error::Damaged { what: "intents.outcome" })
}

fn read(bytes: &[u8]) -> Option<Vec<ItemOutcome>> {
    let mut rest = bytes;
    let [version] = take(&mut rest)?;
    let count = take_len(&mut rest).filter(|count| version == VERSION && *count <= ITEMS_MAX)?;
    let mut items = Vec::with_capacity(count);
    for _ in 0..count {
        items.push(match take(&mut rest)? {
            [1] => ItemOutcome::Signed {
                packet: take_part(&mut rest)?.to_vec(),
                log_index: u64::from_be_bytes(take(&mut rest)?),
                leaf_hash: Hash(take(&mut rest)?),
            },
            [2] => ItemOutcome::Failed {
                code: u32::from_be_bytes(take(&mut rest)?),
                message: core::str::from_utf8(take_part(&mut rest)?).ok()?.to_owned(),
            },
            [_] => return None,
        });
    }
    rest.is_empty().then_some(items)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(*head)
}

fn take_len(rest: &mut &[u8]) -> Option<usize> {
    usize::try_from(u32::from_be_bytes(take(rest)?)).ok()
}

fn take_part<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = take_len(rest)?;
    let (head, tail) = rest.split_at_checked(len)?;
    *rest = tail;
    Some(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items() -> Vec<ItemOutcome> {
        vec![
            ItemOutcome::Signed { packet: vec![1, 2, 3], log_index: u64::MAX, leaf_hash: Hash([7; 32]) },
            ItemOutcome::Failed { code: 21, message: "the key is disabled".to_owned() },
        ]
    }

    #[test]
    fn what_is_encoded_is_read_back() {
        assert_eq!(decode(&encode(&items()).unwrap()).unwrap(), items());
        assert_eq!(decode(&encode(&[]).unwrap()).unwrap(), []);
    }

    #[test]
    fn outcome_cut_or_prolonged_is_damage_not_a_panic() {
        let mut bytes = encode(&items()).unwrap();
        for len in 0..bytes.len() {
            assert!(matches!(decode(&bytes[..len]), Err(Error::Damaged { .. })), "{len}");
        }
        bytes.push(0);
        assert!(decode(&bytes).is_err());
    }

    #[test]
    fn outcome_that_claims_many_items_allocates_nothing() {
        assert!(decode(&[1, 0xff, 0xff, 0xff, 0xff]).is_err());
    }

    #[test]
    fn parts_over_the_limit_are_refused_by_name() {
        let long = ItemOutcome::Failed { code: 1, message: "x".repeat(PART_BYTES_MAX + 1) };
        assert!(matches!(encode(&[long]), Err(Error::TooLarge { what: "the text of a failure", .. })));
    }
}
