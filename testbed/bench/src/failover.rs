//! How long no packet passes after the gateway of a cluster was killed: until it is back, and until
//! one that stands by has taken over.

use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use liqo_testkit::{Lab, eventually};
use nix::sched::{CloneFlags, setns};
use serde_json::json;

use crate::spread;

const ROUNDS: usize = 3;
const SOON: Duration = Duration::from_mins(1);
/// How often somebody knocks.
const PACE: Duration = Duration::from_millis(10);
/// When a knock counts as lost.
const LOST: Duration = Duration::from_millis(50);
/// So many knocks after the first one that was heard again, it is over.
const ENOUGH: usize = 20;

/// The figures, as lines.
pub fn figures() -> Result<Vec<String>> {
    let lab = Lab::up("quick-start")?;
    lab.load_liqo(&["rome", "milan"])?;
    for cluster in ["rome", "milan"] {
        let words = format!("install kubeadm --cluster-name {cluster} --service-type NodePort");
        lab.liqoctl(cluster, &words)?;
    }
    let command = lab.peer_command("milan")?;
    lab.liqoctl("rome", &command)?;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "door" },
        "spec": { "containers": [{
            "name": "main", "image": "localhost/playground/demo:v1", "args": ["serve"],
        }] },
    });
    lab.apply("milan", &[pod])?;
    lab.ready("milan", &["door"])?;
    let address = lab.kubectl("milan", "get pod door -o jsonpath={.status.podIP}")?;
    let door = SocketAddr::new(address.trim().parse().context("the address of a pod")?, 8080);

    let mut alone = vec![];
    for _ in 0..ROUNDS {
        // A pod that is killed twice in a row is not started at once.
        lab.kubectl("rome", "rollout restart -n liqo deployment/liqo-gateway")?;
        alone.push(silence(&lab, door)?);
    }
    lab.kubectl("rome", "scale -n liqo deployment/liqo-gateway --replicas=2")?;
    let mut relieved = vec![];
    for _ in 0..ROUNDS {
        lab.kubectl("rome", "rollout restart -n liqo deployment/liqo-gateway")?;
        relieved.push(silence(&lab, door)?);
    }
    Ok(vec![
        format!("killed gateway, alone      {}", spread(&alone)),
        format!("killed gateway, standby    {}", spread(&relieved)),
    ])
}

/// How long nobody answers when the active gateway is killed.
fn silence(lab: &Lab, door: SocketAddr) -> Result<Duration> {
    lab.kubectl("rome", "rollout status -n liqo deployment/liqo-gateway --timeout=60s")?;
    let visitor = Visitor::knocking(lab, door)?;
    eventually(SOON, "packets pass", || visitor.heard(ENOUGH))?;
    let words = "get pods -n liqo -l net.liqo.io/gateway=active \
                 -o jsonpath={.items[0].spec.nodeName}";
    let node = lab.kubectl("rome", words)?;
    let killed = Instant::now();
    lab.playground(&["exec", node.trim(), "pkill", "-9", "-f", "^/usr/bin/liqo gateway"])?;
    eventually(SOON, "packets pass again", || visitor.heard_after_silence(killed))?;
    visitor.leave()
}

/// Somebody on a node of rome who knocks at a pod of milan.
struct Visitor {
    answers: Arc<Mutex<Vec<Instant>>>,
    stop: Sender<()>,
    thread: JoinHandle<Result<()>>,
}

impl Visitor {
    fn knocking(lab: &Lab, door: SocketAddr) -> Result<Self> {
        let path = format!("/run/netns/{}.rome-1", lab.prefix());
        let namespace = File::open(&path).context(path)?;
        let answers = Arc::<Mutex<Vec<Instant>>>::default();
        let (stop, stopped) = channel();
        let heard = Arc::clone(&answers);
        let thread = thread::spawn(move || {
            setns(namespace, CloneFlags::CLONE_NEWNET).context("enter the namespace of a node")?;
            while stopped.recv_timeout(PACE) == Err(RecvTimeoutError::Timeout) {
                if TcpStream::connect_timeout(&door, LOST).is_ok() {
                    heard.lock().map_err(|_| anyhow!("poisoned"))?.push(Instant::now());
                }
            }
            Ok(())
        });
        Ok(Self { answers, stop, thread })
    }

    fn answers(&self) -> Result<Vec<Instant>> {
        Ok(self.answers.lock().map_err(|_| anyhow!("poisoned"))?.clone())
    }

    fn heard(&self, times: usize) -> Result<()> {
        let answers = self.answers()?.len();
        ensure!(answers >= times, "{answers} of {times}");
        Ok(())
    }

    /// Whether answers came again after a pause, all of it after a moment.
    fn heard_after_silence(&self, moment: Instant) -> Result<()> {
        let answers = self.answers()?;
        let pause = answers.windows(2).position(|pair| match pair {
            [one, next] => *next > moment && next.duration_since(*one) > LOST * 2,
            _ => false,
        });
        let after = pause.map_or(0, |index| answers.len() - index - 1);
        ensure!(after >= ENOUGH, "{after} of {ENOUGH} after the silence");
        Ok(())
    }

    /// The longest time without an answer.
    fn leave(self) -> Result<Duration> {
        let answers = self.answers()?;
        // It may have ended by itself, with an error.
        let _ = self.stop.send(());
        self.thread.join().map_err(|_| anyhow!("the visitor panicked"))??;
        let pauses = answers.iter().zip(answers.iter().skip(1));
        let pauses = pauses.map(|(one, next)| next.duration_since(*one));
        pauses.max().context("no answer at all")
    }
}
