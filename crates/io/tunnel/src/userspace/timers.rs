//! What is due with time: repeated and renewed handshakes, keepalives, keys that are forgotten.

use gotatun::noise::errors::WireGuardError;
use gotatun::packet::Packet;

use super::Shared;

/// How often to look, in milliseconds. WireGuard's own times are whole seconds.
const TICK: u16 = 250;

/// Works until the tunnel is closed.
pub(super) fn run(shared: &Shared) {
    while shared.rest(TICK) {
        shared.stations.tidy();
        for station in shared.stations.all() {
            let mut conversation = station.talk();
            let Some(to) = conversation.endpoint else { continue };
            let due = match conversation.noise.update_timers() {
                Ok(due) => due,
                // It gave up, since the peer did not answer for long. Who is to be kept alive is
                // called again and again.
                Err(WireGuardError::ConnectionExpired)
                    if conversation.noise.persistent_keepalive().is_some() =>
                {
                    conversation.noise.format_handshake_initiation(false).map(Into::into)
                }
                Err(_) => None,
            };
            let Some(kind) = due else { continue };
            shared.stations.note(&kind, &station);
            let packet = Packet::from(kind);
            conversation.says(packet.len());
            drop(conversation);
            shared.send(to, &[packet]);
        }
    }
}
