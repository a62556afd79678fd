//! Every bound on what comes from outside, with its unit and its reason.

/// Bytes before the payload of a request: two lengths of 16 bits.
pub const REQUEST_HEAD_BYTES: usize = 4;

/// Bytes of a request after its head. What the new form can say at all; the old form, which has two lengths, could say twice
/// as much, and no client does.
pub const REQUEST_BYTES_MAX: usize = 65_535;

/// Arguments of a request, command and user included. 65,535 bytes hold 1,236 digests in SHA-1, the shortest that there are,
/// with a length each; upstream's client sends at most 100 at once.
pub const ARGUMENTS_MAX: usize = 1_240;

/// Bytes of each of the two parts of a reply (results, text): the most that a length of 16 bits can say. `signd` does not
/// check it and sends the length modulo 65,536.
pub const REPLY_PART_BYTES_MAX: usize = 65_535;

/// Bytes before the two parts of a reply.
pub const REPLY_HEAD_BYTES: usize = 6;

/// Bytes of a whole reply: what a client has to read at most before it can say that a server sends too much.
pub const REPLY_BYTES_MAX: usize = 131_076;

/// Bytes of a text that we send. Upstream's client has a buffer of 8,192 bytes for a whole reply, and texts repeat what was
/// in the request.
pub const TEXT_BYTES_MAX: usize = 4_096;

/// Bytes of an encrypted project key, decoded. The client's file holds 8,191 hexadecimal digits; a request could carry 32 KiB.
pub const PROJECT_KEY_BYTES_MAX: usize = 16_384;

/// Bytes of the real name, and of the email, of a key to be made. RFC 5321 section 4.5.3.1.3 allows 254 for an address.
pub const NAME_BYTES_MAX: usize = 255;

/// Digits of the days until a new key expires, as in `signd`, line 1518.
pub const EXPIRE_DIGITS_MAX: usize = 10;

/// Bits of a number in a signature. RSA keys of 16,384 bits are the longest that any backend of `signd` makes signatures with.
pub const NUMBER_BITS_MAX: usize = 16_384;

/// Bits of a number in a signature that consists of two: P-521, the largest curve, has 521, DSA at most 256.
pub const PAIR_NUMBER_BITS_MAX: usize = 521;

/// Bytes of a sign.conf: an allow list of ten thousand hosts has 300 KiB.
pub const CONFIG_BYTES_MAX: usize = 1_048_576;

/// Bytes of a line of sign.conf from which on upstream's `sign` does not see it (its buffer holds 255 and a line end).
pub const CONFIG_LINE_BYTES_SEEN: usize = 254;
