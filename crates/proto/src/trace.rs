//! Trace ids: one run of a client is one trace, and its id stands in the lines that each process logs about it
//! (W3C Trace Context, <https://www.w3.org/TR/trace-context/>). A peer's word: it decides nothing, and is read strictly.

use core::fmt;

use crate::status::{Code, Fault};

/// The gRPC metadata, and HTTP header, that carries a [`Traceparent`].
pub const METADATA: &str = "traceparent";

/// Characters of a version 00 header.
const LEN: usize = 55;
/// Characters of any header that is looked at.
const LEN_MAX: usize = 512;

/// 16 bytes, not all zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId([u8; 16]);

impl TraceId {
    /// Of 16 bytes; `None` if all are zero.
    #[must_use]
    pub fn new(bytes: [u8; 16]) -> Option<Self> {
        bytes.iter().any(|byte| *byte != 0).then_some(Self(bytes))
    }

    /// The field of a message; empty is none.
    ///
    /// # Errors
    /// [`Code::MalformedRequest`].
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, Fault> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let id = <[u8; 16]>::try_from(bytes).ok().and_then(Self::new);
        let malformed = || Fault::new(Code::MalformedRequest, "a trace id is 16 bytes, not all zero");
        id.map(Some).ok_or_else(malformed)
    }

    /// The bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A trace, and where in it the sender stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traceparent {
    /// The trace.
    pub trace_id: TraceId,
    /// The sender's part of it; not all zero.
    pub parent_id: [u8; 8],
    /// Bit 0: sampled.
    pub flags: u8,
}

impl Traceparent {
    /// Reads a header; `None` for one that breaks a rule of the specification, which says to go on as if there were
    /// none. A header of a later version is read by the fields that it has in common.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > LEN_MAX {
            return None;
        }
        let fields: [&str; 4] = {
            let mut parts = text.split('-');
            [parts.next()?, parts.next()?, parts.next()?, parts.next()?]
        };
        let [version] = hex::<1>(fields[0])?;
        let extends = text.len() > LEN;
        if version == 0xff
            || (version == 0 && extends)
            || (extends && text.as_bytes().get(LEN) != Some(&b'-'))
        {
            return None;
        }
        let trace_id = TraceId::new(hex(fields[1])?)?;
        let parent_id: [u8; 8] = hex(fields[2])?;
        let [flags] = hex::<1>(fields[3])?;
        parent_id.iter().any(|byte| *byte != 0).then_some(Self { trace_id, parent_id, flags })
    }
}

impl fmt::Display for Traceparent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-", self.trace_id)?;
        self.parent_id.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, "-{:02x}", self.flags)
    }
}

/// Exactly `N` bytes in lower-case digits.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != N.checked_mul(2)? || text.bytes().any(|c| !matches!(c, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let mut bytes = [0; N];
    for (index, byte) in bytes.iter_mut().enumerate() {
        let start = index.checked_mul(2)?;
        *byte = u8::from_str_radix(text.get(start..start.checked_add(2)?)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_header_is_read_and_written_as_the_specification_shows_it() {
        let parsed = Traceparent::parse(HEADER).unwrap();
        assert_eq!(parsed.trace_id.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!((parsed.parent_id[1], parsed.flags), (0xf0, 1));
        assert_eq!(parsed.to_string(), HEADER);
        let later = format!("cc{}-what-the-future-will-be-like", &HEADER[2..]);
        assert_eq!(Traceparent::parse(&later).unwrap().trace_id, parsed.trace_id);
    }

    #[test]
    fn a_header_that_breaks_a_rule_is_as_none() {
        let zero_trace = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
        let long = format!("{HEADER}-{}", "a".repeat(600));
        for bad in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0g",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01x",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\n",
            "00-\u{e4}\u{e4}f92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            zero_trace.as_str(),
            long.as_str(),
        ] {
            assert_eq!(Traceparent::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn the_field_of_a_message_is_empty_or_sixteen_bytes() {
        assert_eq!(TraceId::parse(&[]).unwrap(), None);
        assert_eq!(TraceId::parse(&[7; 16]).unwrap().unwrap().as_bytes(), &[7; 16]);
        for bad in [&[7; 15][..], &[7; 17], &[0; 16]] {
            assert!(TraceId::parse(bad).is_err(), "{bad:?}");
        }
    }
}
