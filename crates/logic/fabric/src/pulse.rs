//! Whether a peer answers, and how fast: the words that gateways say to each other, and what follows
//! from them.
//!
//! ```text
//!               an answer                   no answer for so long
//!  connecting ───────────────> connected ────────────────────────> lost
//!      │                           ^                                 │
//!      │ no answer for so long     └──────────── an answer ──────────┤
//!      └─────────────────────────────────────────────────────────────┘
//! ```

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use liqo_api::names::ClusterId;
use serde::{Deserialize, Serialize};

/// The longest message.
pub const LONGEST: usize = 1024;

/// What UDP and IP add to a message.
const UDP_HEADERS: u32 = 28;

/// What a gateway says to another.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Message {
    /// The peer, as whoever asks knows it; whoever answers repeats it.
    #[serde(rename = "clusterID")]
    pub cluster_id: String,
    /// Whether it asks or answers.
    #[serde(rename = "msgType")]
    pub kind: MessageKind,
    /// When it was asked, as whoever asks writes it; whoever answers repeats it.
    #[serde(rename = "timeStamp")]
    pub time: String,
}

/// Whether a message asks or answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum MessageKind {
    /// It asks.
    #[serde(rename = "PING")]
    Ping,
    /// It answers.
    #[serde(rename = "PONG")]
    Pong,
}

impl Message {
    /// A question to a peer.
    pub fn ping(peer: &ClusterId, now: Timestamp) -> Self {
        Self { cluster_id: peer.to_string(), kind: MessageKind::Ping, time: now.to_string() }
    }

    /// The answer to a question; nothing to an answer.
    pub fn answer(self) -> Option<Self> {
        (self.kind == MessageKind::Ping).then_some(Self { kind: MessageKind::Pong, ..self })
    }

    /// The text on the wire.
    pub fn encode(&self) -> Vec<u8> {
        // Texts and a name always encode.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The same, so long that it makes a packet of this size, if it is not longer anyway.
    pub fn encode_long(&self, packet: u32) -> Vec<u8> {
        let mut text = self.encode();
        let length = usize::try_from(packet.saturating_sub(UDP_HEADERS)).unwrap_or_default();
        text.resize(length.max(text.len()), b' ');
        text
    }

    /// Reads a text from the wire.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

/// How long silence may last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// The time between two questions.
    pub interval: Duration,
    /// How many may stay without an answer.
    pub losses: u32,
}

impl Patience {
    /// The longest silence.
    pub fn limit(&self) -> Duration {
        self.interval.saturating_mul(self.losses)
    }
}

/// What is known of a peer's answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulse {
    /// Where it is asked, and where answers have to come from.
    pub address: Ipv4Addr,
    heard: Timestamp,
    asked: Option<Timestamp>,
    /// How long the last few answers took.
    recent: VecDeque<SignedDuration>,
}

/// How many answers tell how long one usually takes.
const RECENT: usize = 8;
/// How many are enough for a first impression.
const ENOUGH: usize = 5;

/// How a peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It has not answered yet.
    Connecting,
    /// It answers, and takes so long.
    Connected(SignedDuration),
    /// It does not answer.
    Lost,
}

impl Pulse {
    /// Nothing has been heard yet.
    pub fn new(address: Ipv4Addr, now: Timestamp) -> Self {
        Self { address, heard: now, asked: None, recent: VecDeque::new() }
    }

    /// Hears an answer; whether it counts. One that is older than another does not.
    pub fn hear(&mut self, answer: &Message, now: Timestamp) -> bool {
        let Ok(asked) = answer.time.parse::<Timestamp>() else { return false };
        if answer.kind != MessageKind::Pong
            || asked > now
            || self.asked.is_some_and(|last| asked <= last)
        {
            return false;
        }
        (self.asked, self.heard) = (Some(asked), now);
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(now.duration_since(asked));
        true
    }

    /// How the peer is.
    pub fn health(&self, patience: Patience, now: Timestamp) -> Health {
        let silence = Duration::try_from(now.duration_since(self.heard)).unwrap_or_default();
        match self.recent.back() {
            _ if silence > patience.limit() => Health::Lost,
            Some(latency) => Health::Connected(*latency),
            None => Health::Connecting,
        }
    }

    /// When the peer was heard last.
    pub fn heard(&self) -> Timestamp {
        self.heard
    }

    /// How long an answer usually takes: as long as the fastest of the last few, because the others
    /// had to wait for somebody's processor.
    pub fn usual(&self) -> Option<SignedDuration> {
        self.recent.iter().min().copied()
    }

    /// Whether that can be said already.
    pub fn is_settled(&self) -> bool {
        self.recent.len() >= ENOUGH
    }

    /// Whether that was said of so few answers that it may have to be corrected.
    pub fn is_young(&self) -> bool {
        self.recent.len() < RECENT
    }
}

/// A latency as people read it, with the Greek letter that others write.
pub fn latency_text(latency: SignedDuration) -> String {
    if latency.as_micros() < 1000 {
        format!("{}\u{3bc}s", latency.as_micros())
    } else {
        format!("{}ms", latency.as_millis())
    }
}

/// A latency that was written so.
pub fn read_latency(text: &str) -> Option<Duration> {
    let number = |unit: &str| text.strip_suffix(unit).and_then(|number| number.parse().ok());
    number("\u{3bc}s")
        .map(Duration::from_micros)
        .or_else(|| number("ms").map(Duration::from_millis))
}

/// What stands where a latency is not known.
pub const NO_LATENCY: &str = "N/A";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixtures::MILAN;

    const PATIENCE: Patience = Patience { interval: Duration::from_secs(2), losses: 5 };

    #[test]
    fn messages_are_those_that_others_send() {
        let ping = Message::ping(&MILAN.parse().unwrap(), at(0.5));
        let text = String::from_utf8(ping.encode()).unwrap();
        assert_eq!(
            text,
            "{\"clusterID\":\"2cb4110a-c5e6-4a52-851d-d0e0d86c9174\",\"msgType\":\"PING\",\
             \"timeStamp\":\"2026-11-15T20:00:00.5Z\"}"
        );
        let theirs = text.replace("20:00:00.5Z", "21:00:00.123456789+01:00");
        let answer = Message::decode(theirs.as_bytes()).unwrap().answer().unwrap();
        assert_eq!(String::from_utf8(answer.encode()).unwrap(), theirs.replace("PING", "PONG"));
        assert_eq!(answer.answer(), None);
    }

    #[test]
    fn long_messages_mean_what_short_ones_do_also_to_those_who_hear_only_their_beginning() {
        let ping = Message::ping(&MILAN.parse().unwrap(), at(0.5));
        let long = ping.encode_long(1340);
        assert_eq!(long.len(), 1340 - 28);
        assert_eq!(Message::decode(&long), Some(ping.clone()));
        assert_eq!(Message::decode(&long[..LONGEST]), Some(ping.clone()));
        assert_eq!(ping.encode_long(3), ping.encode());
    }

    #[test]
    fn a_peer_is_connected_by_its_first_answer_and_lost_by_silence() {
        let mut pulse = Pulse::new(Ipv4Addr::LOCALHOST, at(0.0));
        assert_eq!(pulse.health(PATIENCE, at(10.0)), Health::Connecting);
        assert_eq!(pulse.health(PATIENCE, at(10.1)), Health::Lost);
        assert!(pulse.hear(&pong(11.0), at(11.25)));
        let quarter = SignedDuration::from_millis(250);
        assert_eq!(pulse.health(PATIENCE, at(21.25)), Health::Connected(quarter));
        assert_eq!(pulse.health(PATIENCE, at(21.3)), Health::Lost);
    }

    #[test]
    fn a_peer_is_usually_as_fast_as_the_fastest_of_its_last_answers() {
        let mut pulse = Pulse::new(Ipv4Addr::LOCALHOST, at(0.0));
        assert_eq!(pulse.usual(), None);
        for (index, took) in [0.5, 0.25, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5].iter().enumerate()
        {
            let asked = f64::from(u32::try_from(index).unwrap());
            assert_eq!((pulse.is_settled(), pulse.is_young()), (index >= 5, index < 8));
            assert!(pulse.hear(&pong(asked), at(asked + took)));
            let usual = if index == 0 || index == 9 { 500 } else { 250 };
            assert_eq!(pulse.usual(), Some(SignedDuration::from_millis(usual)), "{index}");
        }
    }

    #[test]
    fn answers_out_of_order_or_from_the_future_do_not_count() {
        let mut pulse = Pulse::new(Ipv4Addr::LOCALHOST, at(0.0));
        assert!(pulse.hear(&pong(4.0), at(5.0)));
        assert!(!pulse.hear(&pong(2.0), at(5.5)));
        assert!(!pulse.hear(&pong(4.0), at(5.5)));
        assert!(!pulse.hear(&pong(7.0), at(6.0)));
        assert!(!pulse.hear(&Message { kind: MessageKind::Ping, ..pong(5.5) }, at(6.0)));
        assert!(!pulse.hear(&Message { time: "soon".to_owned(), ..pong(5.5) }, at(6.0)));
    }

    #[test]
    fn a_latency_that_was_written_can_be_read() {
        assert_eq!(read_latency("526\u{3bc}s"), Some(Duration::from_micros(526)));
        assert_eq!(read_latency("25ms"), Some(Duration::from_millis(25)));
        assert_eq!(read_latency(NO_LATENCY), None);
    }

    #[test]
    fn latencies_read_as_people_know_them() {
        for (micros, text) in [(526, "526\u{3bc}s"), (1000, "1ms"), (25_900, "25ms")] {
            assert_eq!(latency_text(SignedDuration::from_micros(micros)), text);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_stumble(bytes in prop::collection::vec(any::<u8>(), 0..LONGEST)) {
            if let Some(answer) = Message::decode(&bytes).and_then(Message::answer) {
                prop_assert!(answer.encode().len() <= bytes.len());
            }
        }

        #[test]
        fn no_answer_comes_before_its_question(
            time in "[0-9TZ:.+-]{0,30}|[+-]?[0-9]{4,6}-[0-1][0-9]-[0-3][0-9]T[0-2][0-9]:00:00(Z|[+-]23:59)",
            id in ".{0,40}",
            kind in "PING|PONG|pong|",
        ) {
            let text = serde_json::json!({ "clusterID": id, "msgType": kind, "timeStamp": time });
            let Some(message) = Message::decode(text.to_string().as_bytes()) else {
                return Ok(());
            };
            let mut pulse = Pulse::new(Ipv4Addr::LOCALHOST, at(0.0));
            if pulse.hear(&message, at(1.0)) {
                prop_assert!(pulse.usual().is_some_and(|latency| !latency.is_negative()));
                let shown = latency_text(pulse.usual().unwrap_or_default());
                prop_assert!(read_latency(&shown).is_some(), "{}", shown);
            }
            prop_assert_eq!(message.clone().answer().is_some(), message.kind == MessageKind::Ping);
        }
    }

    fn pong(asked: f64) -> Message {
        let ping = Message::ping(&MILAN.parse().unwrap(), at(asked));
        ping.answer().unwrap()
    }

    fn at(seconds: f64) -> Timestamp {
        let start: Timestamp = "2026-11-15T20:00:00Z".parse().unwrap();
        start + SignedDuration::from_secs_f64(seconds)
    }
}
