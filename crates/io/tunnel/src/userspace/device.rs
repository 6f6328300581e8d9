//! The TUN device: frames of many packets in and out, a system call each.

use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use tun_rs::{DeviceBuilder, SyncDevice};

use crate::error::errno;

/// How long to try for a name that is taken. A device that was closed a moment ago lives on while a
/// program is being started, which holds for an instant all that its parent holds; on a machine that
/// is busy, the instant is a long one.
const PATIENCE: usize = 80;
const PAUSE: Duration = Duration::from_millis(25);

/// A TUN device with offloads.
pub(super) struct Device(SyncDevice);

impl Device {
    /// Makes a device in the namespace of this thread, and sets it up. It goes when it is dropped.
    pub(super) fn open(name: &str, mtu: u16) -> io::Result<Self> {
        let make = || DeviceBuilder::new().name(name).mtu(mtu).offload(true).build_sync();
        let is_busy = |error: &io::Error| errno(error) == Some(Errno::EBUSY);
        let mut device = make();
        for _ in 0..PATIENCE {
            if !device.as_ref().is_err_and(is_busy) {
                break;
            }
            thread::sleep(PAUSE);
            device = make();
        }
        let device = device?;
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
