//! One packet of a socket between signer, keeper and spare keeper, with a descriptor or without.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

/// What was received.
pub(super) struct Packet<'a> {
    /// `None`: it was longer than the room for it, or more than one descriptor came with it.
    pub(super) bytes: Option<&'a [u8]>,
    pub(super) descriptor: Option<OwnedFd>,
}

/// Waits for the next one; `None` when the other end has gone.
///
/// # Errors
/// Those of recvmsg(2).
pub(super) fn receive<'a>(socket: &OwnedFd, room: &'a mut [u8]) -> std::io::Result<Option<Packet<'a>>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut parts = [IoSliceMut::new(room)];
        match rustix::net::recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            Err(Errno::CONNRESET) => return Ok(None),
            received => break received?,
        }
    };
    if received.bytes == 0 {
        return Ok(None);
    }
    // There may be room for more than one, and what was sent without being asked for is closed.
    let mut descriptors: Vec<OwnedFd> = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(more) = message {
            descriptors.extend(more);
        }
    }
    let is_cut = received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
    let descriptor = descriptors.pop();
    let is_whole = !is_cut && descriptors.is_empty();
    let bytes = room.get(..received.bytes).filter(|_| is_whole);
    Ok(Some(Packet { bytes, descriptor }))
}

/// Sends one with a descriptor.
///
/// # Errors
/// Those of sendmsg(2).
pub(super) fn send(
    socket: &OwnedFd,
    message: &impl prost::Message,
    descriptor: BorrowedFd<'_>,
) -> std::io::Result<()> {
    let bytes = message.encode_to_vec();
    let descriptors = [descriptor];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(std::io::Error::other("no room for a descriptor"));
    }
    rustix::net::sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}
