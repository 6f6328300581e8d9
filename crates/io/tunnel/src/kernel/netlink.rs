//! A question to the kernel, and its answers.

use std::fmt::Debug;
use std::io;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader, NetlinkMessage, NetlinkPayload,
    NetlinkSerializable,
};
use netlink_sys::{Socket, SocketAddr};

/// Asks the kernel in the namespace of this thread, and returns what it answers.
pub(super) fn ask<M>(protocol: isize, flags: u16, question: M) -> io::Result<Vec<M>>
where
    M: NetlinkSerializable + NetlinkDeserializable + Debug,
{
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(question));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);

    let mut socket = Socket::new(protocol)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&bytes, 0)?;
    let mut answers = Vec::new();
    loop {
        let (bytes, _) = socket.recv_from_full()?;
        if take(&bytes, &mut answers)? {
            return Ok(answers);
        }
    }
}

/// Takes the messages of one datagram; `true` says that it was the last.
fn take<M: NetlinkDeserializable>(mut bytes: &[u8], answers: &mut Vec<M>) -> io::Result<bool> {
    while !bytes.is_empty() {
        let message = NetlinkMessage::<M>::deserialize(bytes).map_err(io::Error::other)?;
        // Messages are aligned to four bytes.
        let length = usize::try_from(message.header.length).unwrap_or(0).next_multiple_of(4);
        match message.payload {
            NetlinkPayload::InnerMessage(answer) => answers.push(answer),
            NetlinkPayload::Done(_) => return Ok(true),
            NetlinkPayload::Error(error) if error.code.is_none() => return Ok(true),
            NetlinkPayload::Error(error) => return Err(error.to_io()),
            NetlinkPayload::Overrun(_) => return Err(io::Error::other("the kernel lost answers")),
            NetlinkPayload::Noop | _ => {}
        }
        bytes = bytes.get(length.max(4)..).unwrap_or_default();
    }
    Ok(false)
}
