//! Frames between front and signer: a 4-byte big-endian length, then that many bytes of one message.
//!
//! [`read`] and [`write()`] are for blocking streams (the signer); [`encode`], [`body_len`] and [`decode`] are the
//! same without input and output, for an asynchronous caller (front).

use crate::limits::FRAME_BYTES_MAX;
use prost::Message;
use std::io::{ErrorKind, Read, Write};

/// Bytes of the length field.
pub const HEADER_BYTES: usize = 4;

/// Why a frame was not read or written. After any of these the stream is out of step: close it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The length field asks for more than the limit, or a message of ours is larger.
    #[error("a frame of {bytes} bytes is over the limit of {limit}")]
    TooLarge {
        /// What was asked for.
        bytes: usize,
        /// What is allowed: [`FRAME_BYTES_MAX`], or what the reader of [`read_within`] said.
        limit: usize,
    },
    /// The bytes are no message. The peer is at fault.
    #[error("a frame holds no message")]
    Malformed(#[source] prost::DecodeError),
    /// The stream ended inside a frame: the peer died.
    #[error("the stream ended inside a frame")]
    Truncated,
    /// The socket failed.
    #[error("the socket failed")]
    Io(#[source] std::io::Error),
}

/// One frame, length field included.
///
/// # Errors
/// [`Error::TooLarge`].
pub fn encode<M: Message>(message: &M) -> Result<Vec<u8>, Error> {
    let bytes = message.encoded_len();
    let len = u32::try_from(bytes).ok().filter(|_| bytes <= FRAME_BYTES_MAX);
    let len = len.ok_or(Error::TooLarge { bytes, limit: FRAME_BYTES_MAX })?;
    let mut frame = Vec::with_capacity(bytes.saturating_add(HEADER_BYTES));
    frame.extend(len.to_be_bytes());
    // Appends to a vector, which grows: cannot fail.
    let encoded = message.encode(&mut frame);
    debug_assert!(encoded.is_ok(), "a vector takes any length");
    Ok(frame)
}

/// The length of the body, from the length field.
///
/// # Errors
/// [`Error::TooLarge`].
pub fn body_len(header: [u8; HEADER_BYTES]) -> Result<usize, Error> {
    len_within(header, FRAME_BYTES_MAX)
}

fn len_within(header: [u8; HEADER_BYTES], limit: usize) -> Result<usize, Error> {
    let bytes = usize::try_from(u32::from_be_bytes(header)).unwrap_or(usize::MAX);
    if bytes > limit { Err(Error::TooLarge { bytes, limit }) } else { Ok(bytes) }
}

/// The message in a body.
///
/// # Errors
/// [`Error::Malformed`].
pub fn decode<M: Message + Default>(body: &[u8]) -> Result<M, Error> {
    M::decode(body).map_err(Error::Malformed)
}

/// Writes one message and flushes.
///
/// # Errors
/// [`Error::TooLarge`], with nothing written; [`Error::Io`].
pub fn write<M: Message>(stream: &mut impl Write, message: &M) -> Result<(), Error> {
    let frame = encode(message)?;
    stream.write_all(&frame).and_then(|()| stream.flush()).map_err(Error::Io)
}

/// Reads one message, and the length of its body in bytes; `None` when the peer closed between two frames.
///
/// # Errors
/// All of [`Error`]. Memory grows with the bytes that arrive, not with what the length field says.
pub fn read<M: Message + Default>(stream: &mut impl Read) -> Result<Option<(M, usize)>, Error> {
    read_within(stream, FRAME_BYTES_MAX)
}

/// [`read`], from a peer whose messages have at most `limit` bytes, if that is less than [`FRAME_BYTES_MAX`].
///
/// # Errors
/// Those of [`read`].
pub fn read_within<M: Message + Default>(
    stream: &mut impl Read,
    limit: usize,
) -> Result<Option<(M, usize)>, Error> {
    let Some(body) = read_body(stream, limit.min(FRAME_BYTES_MAX))? else { return Ok(None) };
    Ok(Some((decode(&body)?, body.len())))
}

fn read_body(stream: &mut impl Read, limit: usize) -> Result<Option<Vec<u8>>, Error> {
    let mut header = Vec::with_capacity(HEADER_BYTES);
    read_up_to(stream, HEADER_BYTES, &mut header)?;
    if header.is_empty() {
        return Ok(None);
    }
    let header = <[u8; HEADER_BYTES]>::try_from(header).map_err(|_| Error::Truncated)?;
    let len = len_within(header, limit)?;
    let mut body = Vec::new();
    read_up_to(stream, len, &mut body)?;
    if body.len() == len { Ok(Some(body)) } else { Err(Error::Truncated) }
}

fn read_up_to(stream: &mut impl Read, len: usize, into: &mut Vec<u8>) -> Result<(), Error> {
    let limit = u64::try_from(len).unwrap_or(u64::MAX);
    match stream.by_ref().take(limit).read_to_end(into) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => Err(Error::Truncated),
        Err(error) => Err(Error::Io(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::DescribeKeyRequest;

    fn message(len: usize) -> DescribeKeyRequest {
        DescribeKeyRequest { key: "x".repeat(len) }
    }

    #[test]
    fn frames_come_back_in_order_and_the_end_is_clean() {
        let mut stream = Vec::new();
        for len in [0, 1, 300, 100_000] {
            write(&mut stream, &message(len)).unwrap();
        }
        let mut stream = stream.as_slice();
        for len in [0, 1, 300, 100_000] {
            let (back, _) = read::<DescribeKeyRequest>(&mut stream).unwrap().unwrap();
            assert_eq!(back, message(len));
        }
        assert!(read::<DescribeKeyRequest>(&mut stream).unwrap().is_none());
    }

    #[test]
    fn the_pure_half_agrees_with_the_streaming_half() {
        let mut streamed = Vec::new();
        write(&mut streamed, &message(77)).unwrap();
        let frame = encode(&message(77)).unwrap();
        assert_eq!(frame, streamed);
        let (header, body) = frame.split_first_chunk::<HEADER_BYTES>().unwrap();
        assert_eq!(body_len(*header).unwrap(), body.len());
        assert_eq!(decode::<DescribeKeyRequest>(body).unwrap(), message(77));
    }

    #[test]
    fn frame_cut_anywhere_is_truncated() {
        let frame = encode(&message(20)).unwrap();
        for len in 1..frame.len() {
            let result = read::<DescribeKeyRequest>(&mut frame.get(..len).unwrap());
            assert!(matches!(result, Err(Error::Truncated)), "{len}");
        }
    }

    #[test]
    fn frame_length_over_limit() {
        let mut frame = u32::try_from(FRAME_BYTES_MAX + 1).unwrap().to_be_bytes().to_vec();
        frame.extend([0; 100]);
        let result = read::<DescribeKeyRequest>(&mut frame.as_slice());
        assert!(matches!(result, Err(Error::TooLarge { .. })));
        assert!(matches!(encode(&message(FRAME_BYTES_MAX)), Err(Error::TooLarge { .. })));
    }

    #[test]
    fn a_reader_with_a_lower_limit_refuses_what_is_above_it() {
        let frame = encode(&message(20)).unwrap();
        let body = frame.len() - HEADER_BYTES;
        assert!(read_within::<DescribeKeyRequest>(&mut frame.as_slice(), body).unwrap().is_some());
        let result = read_within::<DescribeKeyRequest>(&mut frame.as_slice(), body - 1);
        assert!(
            matches!(result, Err(Error::TooLarge { bytes, limit }) if bytes == body && limit == body - 1)
        );
    }

    #[test]
    fn frame_of_junk_is_malformed() {
        let frame = [0, 0, 0, 3, 0xff, 0xff, 0xff];
        let result = read::<DescribeKeyRequest>(&mut frame.as_slice());
        assert!(matches!(result, Err(Error::Malformed(_))));
    }
}
