//! Between supervisor and front: one pair of sockets with whole messages. The supervisor hands sockets and files, as
//! it read them, over; front tells its state, in the words of `sd_notify`. When one of them ends, the other sees it.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::{Deserialize, Serialize};
use tokio::io::Interest;
use tokio::net::UnixDatagram;

use super::files::{Files, Role, Taken};
use super::inherit::{Listeners, Name};
use crate::failure::Failure;

/// Bytes of one message.
const MESSAGE_BYTES_MAX: usize = 32 << 10;

/// Descriptors of one message: six files, and the listeners.
const DESCRIPTORS_MAX: usize = 64;

/// Bytes of one notice of front.
pub(super) const NOTICE_BYTES_MAX: usize = 4 << 10;

/// Pause between looks at a channel in which something lies that is for later.
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_millis(100);

/// Two connected ends.
///
/// # Errors
/// No descriptor is left.
pub(super) fn pair() -> std::io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

#[derive(Deserialize, Serialize)]
struct Handover {
    files: Vec<(Role, PathBuf)>,
    listeners: Vec<Name>,
}

/// Hands over files, and at the start listeners. In the message are their names, in the order of the descriptors.
///
/// # Errors
/// Front has ended, or does not read.
pub(super) fn hand_over(
    channel: impl AsFd,
    files: &Files,
    listeners: Option<&Listeners>,
) -> std::io::Result<()> {
    let listening = || listeners.into_iter().flat_map(Listeners::each);
    let handover = Handover {
        files: files.each().map(|taken| (taken.role, taken.path.clone())).collect(),
        listeners: listening().map(|(name, _)| name).collect(),
    };
    let text = serde_json::to_vec(&handover)?;
    let copies = files.each().map(Taken::copy).collect::<std::io::Result<Vec<_>>>()?;
    let copies = copies.iter().map(AsFd::as_fd);
    let descriptors: Vec<BorrowedFd<'_>> =
        copies.chain(listening().map(|(_, descriptor)| descriptor)).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if text.len() > MESSAGE_BYTES_MAX || !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(std::io::Error::other("too much for one message"));
    }
    sendmsg(channel, &[IoSlice::new(&text)], &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
    Ok(())
}

/// What was handed over; `None` when the supervisor has ended.
///
/// # Errors
/// It is not what [`hand_over`] sends.
pub(super) fn take(channel: impl AsFd) -> std::io::Result<Option<(Files, Listeners)>> {
    let mut text = vec![0; MESSAGE_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        match recvmsg(&channel, &mut [IoSliceMut::new(&mut text)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => (),
            received => break received?,
        }
    };
    if received.bytes == 0 {
        return Ok(None);
    }
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    let mut descriptors = descriptors.into_iter();
    let handover: Handover = serde_json::from_slice(text.get(..received.bytes).unwrap_or_default())?;
    let missing = || std::io::Error::other("a descriptor is missing");
    let mut files = Vec::new();
    for (role, path) in handover.files {
        files.push(Taken::received(role, path, descriptors.next().ok_or_else(missing)?)?);
    }
    let mut listeners = Listeners::default();
    for name in handover.listeners {
        listeners.add(name, descriptors.next().ok_or_else(missing)?);
    }
    Ok(Some((Files::received(files), listeners)))
}

/// One end, in a runtime. Its type is a datagram's, of which a socket of whole messages differs in having an end.
pub(super) struct Channel(UnixDatagram);

impl Channel {
    /// # Errors
    /// The runtime cannot watch it.
    pub(super) fn new(end: OwnedFd) -> std::io::Result<Self> {
        let end = std::os::unix::net::UnixDatagram::from(end);
        end.set_nonblocking(true)?;
        UnixDatagram::from_std(end).map(Self)
    }

    /// The descriptor, to hand over by.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Waits for [`take`].
    ///
    /// # Errors
    /// As for [`take`].
    pub(super) async fn taken(&self) -> std::io::Result<Option<(Files, Listeners)>> {
        self.0.async_io(Interest::READABLE, || take(self.descriptor())).await
    }

    /// Waits until the other end has gone.
    pub(super) async fn hung_up(&self) {
        while let Ok(ready) = self.0.ready(Interest::READABLE).await {
            if ready.is_read_closed() {
                return;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// The next notice; `None` when front has ended.
    pub(super) async fn notice(&self) -> Option<String> {
        let mut bytes = vec![0; NOTICE_BYTES_MAX];
        let length = self.0.recv(&mut bytes).await.unwrap_or_default();
        let notice = bytes.get(..length).filter(|notice| !notice.is_empty())?;
        Some(String::from_utf8_lossy(notice).into_owned())
    }
}

/// A failure of the channel, for front.
pub(super) fn broken(error: &std::io::Error) -> Failure {
    Failure::failed(
        format!("standard input is not a channel to the supervisor: {error}"),
        "`sealwright front` is started by `sealwright serve`, or by a service manager without --supervised.",
    )
}
