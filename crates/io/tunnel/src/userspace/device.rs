//! The TUN device: frames of many packets in and out, a system call each.

use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};

use tun_rs::{DeviceBuilder, SyncDevice};

/// A TUN device with offloads.
pub(super) struct Device(SyncDevice);

impl Device {
    /// Makes a device in the namespace of this thread, and sets it up. It goes when it is dropped.
    pub(super) fn open(name: &str, mtu: u16) -> io::Result<Self> {
        let device = DeviceBuilder::new().name(name).mtu(mtu).offload(true).build_sync()?;
        device.set_nonblocking(true)?;
        Ok(Self(device))
    }

    /// Takes the next frame, if there is one.
    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self.0.recv(buffer) {
            Ok(length) => Ok(Some(length)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Hands over a frame that is in pieces.
    pub(super) fn write(&self, pieces: &[IoSlice<'_>]) -> io::Result<()> {
        self.0.send_vectored(pieces).map(|_| ())
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
