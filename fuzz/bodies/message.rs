//! What holds of every message from another process.
#![allow(dead_code, reason = "each target uses its part")]

use std::fmt::Debug;

use prost::Message;
use sealwright_proto::limits::MESSAGE_BYTES_MAX;
use sealwright_proto::status::{Blame, Code, Fault};

/// The message, if the bytes are one; it is written and read again as the same.
pub(crate) fn decoded<M: Message + Default + PartialEq>(data: &[u8]) -> Option<M> {
    let message = M::decode(data).ok()?;
    let again = M::decode(message.encode_to_vec().as_slice()).unwrap();
    assert!(again == message, "writing and reading changed the message");
    Some(message)
}

/// What was parsed goes over the wire and is parsed as the same; what was refused says why, and whose fault it is.
pub(crate) fn round_trip<W, T: PartialEq + Debug>(
    parsed: Result<T, Fault>,
    parse: impl Fn(W) -> Result<T, Fault>,
    to_wire: impl Fn(&T) -> W,
) {
    match parsed {
        Ok(value) => assert_eq!(parse(to_wire(&value)).unwrap(), value, "the wire changed the message"),
        Err(fault) => refused(&fault),
    }
}

/// A message that breaks a rule is its sender's fault.
pub(crate) fn refused(fault: &Fault) {
    sound(fault);
    let row = fault.code.row();
    assert!(row.blame == Blame::Caller, "{} is not the fault of the sender", row.name);
}

/// What holds of every failure.
pub(crate) fn sound(fault: &Fault) {
    assert!(fault.message.len() <= MESSAGE_BYTES_MAX, "a failure has a longer text than the limit");
    let again = Fault::from(sealwright_proto::v1::Failure::from(fault.clone()));
    assert_eq!(again, *fault, "the wire changed a failure");
    assert_eq!(Code::from_number(fault.code.number()), fault.code);
}
