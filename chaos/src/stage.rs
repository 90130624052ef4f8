//! One cluster of three real nodes under load, and what a scenario can do with it: break, mend, wait, measure, claim. A
//! scenario is a short script of these.

mod stores;

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use limits::{Moment, Span};

use crate::admin::{Admin, Cluster, ReportedClock};
use crate::bounds::{LOOK_EVERY, OWNED_AGAIN, SETTLED_WITHIN};
use crate::clock_fault::ClockFault;
use crate::load::Callers;
use crate::net::{self, Cut, Host};
use crate::node::Node;
use crate::node_file::{NodeFile, name};
use crate::redis::Redis;
use crate::serving::Serving;
use crate::stalls::Sleeper;
use crate::succession::Succession;
use crate::terms::POLICY;
use crate::tokens;
use crate::watch::{Watch, seconds};

pub use stores::DURABLE;

/// How often a clock is read to be read once well.
const CLOCK_READINGS: usize = 12;

/// Nodes of a cluster of the suite.
pub const NODES: usize = 3;

/// Something that happened, for the timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When.
    pub at: Moment,
    /// What, in a few words.
    pub says: String,
}

/// A length of time that was measured, and what it is held to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Of what.
    pub what: String,
    /// How long.
    pub took: Span,
    /// How long it may be.
    pub bound: Span,
    /// How long the machine stood still meanwhile.
    pub stalled: Span,
}

impl Measured {
    /// Whether the bound was kept, the machine's own stalls apart.
    pub fn holds(&self) -> bool {
        self.took <= self.bound.saturating_add(self.stalled)
    }
}

/// Something that ought to be so, and whether it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// What.
    pub says: String,
    /// What was seen instead; `None` when it was so.
    pub but: Option<String>,
}

/// Everything that a script writes down.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// What happened.
    pub marks: Vec<Mark>,
    /// What was measured.
    pub measured: Vec<Measured>,
    /// What was claimed.
    pub claims: Vec<Claim>,
    /// Nodes that were broken, each once.
    pub victims: BTreeSet<usize>,
    /// Whether nobody may have to take over, so that no key may be read as used up for want of knowledge.
    pub is_unmoved: bool,
    /// When one node was alone, without a quorum.
    pub alone: Option<(Moment, Moment)>,
    /// Whether nodes had a Redis.
    pub has_redis: bool,
    /// Who had to be followed by others, and what these have to know.
    pub successions: Vec<Succession>,
    /// From when until when there was no Redis, and every node knew that what it keeps does not count.
    pub away: Option<(Moment, Moment)>,
    /// What else is told of it, in a few words each.
    pub facts: Vec<String>,
    /// How much faster the fastest clock ran than the suite's, and how much slower the slowest, in millionths.
    pub clocks_off: i32,
}

/// The cluster on its stage.
pub struct Stage {
    /// What the script writes down.
    pub notes: Notes,
    /// The suite's clock.
    pub watch: Watch,
    /// What the machine kept from running.
    pub sleeper: Sleeper,
    nodes: Vec<Node>,
    serving: Vec<Serving>,
    /// The servers of Redis, if there are any, and the place of the one that nodes are led to.
    stores: Vec<Redis>,
    primary: usize,
    policy: &'static str,
    admin: Admin,
    check_token: String,
    folder: PathBuf,
}

impl Stage {
    /// Writes the files of three nodes into a folder of their own. Nothing runs yet.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub fn set(folder: &Path, program: &Path) -> Result<Stage> {
        if folder.exists() {
            std::fs::remove_dir_all(folder).with_context(|| format!("emptying {}", folder.display()))?;
        }
        let (check_token, admin_token) = (tokens::fresh(), tokens::fresh());
        let (secret, policy) = (folder.join("secret"), folder.join("policy.yaml"));
        let mut nodes = Vec::new();
        for place in 0..NODES {
            let own = folder.join(name(place));
            std::fs::create_dir_all(&own).with_context(|| format!("making {}", own.display()))?;
            let file = NodeFile {
                place,
                founders: NODES,
                data_dir: &own.join("data"),
                secret_file: &secret,
                policy_file: &policy,
                check_token: &tokens::digest(&check_token),
                admin_token: &tokens::digest(&admin_token),
            };
            write(&own.join("node.toml"), &file.text())?;
            nodes.push(Node::new(place, program, own));
        }
        write(&secret, &tokens::fresh())?;
        std::fs::set_permissions(&secret, Permissions::from_mode(0o600)).context("the secret's permissions")?;
        write(&policy, POLICY)?;
        let watch = Watch::start();
        Ok(Stage {
            notes: Notes::default(),
            watch,
            sleeper: Sleeper::start(watch),
            nodes,
            serving: vec![Serving::default(); NODES],
            stores: Vec::new(),
            primary: 0,
            policy: POLICY,
            admin: Admin::new(&admin_token),
            check_token,
            folder: folder.to_owned(),
        })
    }

    /// The scenario's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The policy that the cluster is founded with.
    pub fn policy(&self) -> &'static str {
        self.policy
    }

    /// Gives a node wrong clocks, before it is started.
    pub fn set_clock_fault(&mut self, node: usize, fault: ClockFault) {
        self.nodes[node].set_clock_fault(fault);
    }

    /// Founds the cluster and waits until it is whole.
    ///
    /// # Errors
    /// When it does not come about.
    pub fn found(&mut self) -> Result<()> {
        for node in &mut self.nodes {
            node.start()?;
        }
        self.settle()?;
        // The load has not begun, so nobody can have asked too early.
        for serving in &mut self.serving {
            *serving = Serving::default();
            serving.begins(Moment::ZERO);
        }
        Ok(())
    }

    /// The callers of this cluster.
    ///
    /// # Errors
    /// When they cannot be made.
    pub fn callers(&self) -> Result<Callers> {
        let nodes: Vec<(String, Arc<str>)> =
            (0..NODES).map(|place| (format!("{}:7600", net::address(place)), name(place).into())).collect();
        Callers::new(&nodes, &self.check_token)
    }

    /// When each node could be asked.
    pub fn serving(&self) -> &[Serving] {
        &self.serving
    }

    // What can be done.

    /// `kill -9`. Returns when it was done.
    ///
    /// # Errors
    /// When the node does not run.
    pub fn kill(&mut self, node: usize) -> Result<Moment> {
        let at = self.down(node, "kill -9");
        self.nodes[node].kill()?;
        Ok(at)
    }

    /// SIGSTOP. Returns when it was done.
    ///
    /// # Errors
    /// When the node does not run.
    pub fn freeze(&mut self, node: usize) -> Result<Moment> {
        let at = self.down(node, "SIGSTOP");
        self.nodes[node].freeze()?;
        Ok(at)
    }

    /// SIGCONT. It is not asked anything before [`up`](Stage::up).
    ///
    /// # Errors
    /// When the node does not run.
    pub fn thaw(&mut self, node: usize) -> Result<()> {
        self.mark(format!("SIGCONT {}", name(node)));
        self.nodes[node].thaw()
    }

    /// SIGTERM. Returns when it was done.
    ///
    /// # Errors
    /// When the node does not run.
    pub fn terminate(&mut self, node: usize) -> Result<Moment> {
        let at = self.down(node, "SIGTERM");
        self.nodes[node].terminate()?;
        Ok(at)
    }

    /// Waits for the end of a node that was asked to, and claims that it ended well.
    ///
    /// # Errors
    /// When it does not end.
    pub fn claim_clean_end(&mut self, node: usize) -> Result<()> {
        let status = self.nodes[node].ended()?;
        let but = Some(format!("it ended with {status}")).filter(|_| !status.success());
        self.claim(format!("{} ends with exit code 0", name(node)), but);
        Ok(())
    }

    /// Starts a node's process; it is not asked anything before [`up`](Stage::up).
    ///
    /// # Errors
    /// When it runs already.
    pub fn start(&mut self, node: usize) -> Result<()> {
        self.mark(format!("start {}", name(node)));
        self.nodes[node].start()
    }

    /// Wipes the data directory of a node that does not run.
    ///
    /// # Errors
    /// When it runs.
    pub fn wipe(&mut self, node: usize) -> Result<()> {
        self.mark(format!("wipe {}", name(node)));
        self.nodes[node].wipe()
    }

    /// Cuts a node off from the others. Callers still reach it. Returns when it was done.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn cut(&mut self, node: usize, cut: Cut) -> Result<Moment> {
        let at = self.mark(format!("cut {} {cut}", name(node)));
        self.notes.victims.insert(node);
        let others: Vec<_> = (0..NODES).filter(|other| *other != node).map(net::address).collect();
        net::cut(Host::Node(node), &others, cut)?;
        Ok(at)
    }

    /// Mends the cut, and claims that it was felt.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn mend(&mut self, node: usize) -> Result<()> {
        self.mend_host(Host::Node(node)).map(drop)
    }

    fn mend_host(&mut self, host: Host) -> Result<Moment> {
        let swallowed = net::swallowed(host)?;
        net::heal(host)?;
        let at = self.mark(format!("mend {}", host.name()));
        let but = Some("it swallowed no packet".to_owned()).filter(|_| swallowed == 0);
        self.claim("the cut was felt", but);
        Ok(at)
    }

    /// Sets a node's wall clock.
    ///
    /// # Errors
    /// When it was not started with one that can be set.
    pub fn step_wall(&mut self, node: usize, seconds: i64) -> Result<()> {
        self.mark(format!("wall clock of {} {seconds:+} s", name(node)));
        self.nodes[node].clock_fault().context("this node's clock cannot be set")?.step(seconds)
    }

    // What can be seen.

    /// The cluster as a node sees it.
    ///
    /// # Errors
    /// When the node does not answer.
    pub fn cluster(&self, node: usize) -> Result<Cluster> {
        self.admin.cluster(&admin_address(node))
    }

    /// The place of the leader, and of the first node that is not.
    ///
    /// # Errors
    /// When there is no leader.
    pub fn leader_and_follower(&self) -> Result<(usize, usize)> {
        let leader = self.cluster(0)?.leader.context("no leader")?;
        let leader = (0..NODES).find(|place| name(*place) == leader).context("an unknown leader")?;
        Ok((leader, (leader + 1) % NODES))
    }

    /// A node's clocks as it reports them, with the suite's own reading at about that time: of a few readings the one that
    /// travelled the shortest.
    ///
    /// # Errors
    /// When the node does not answer.
    pub fn clocks_of(&self, node: usize) -> Result<(ReportedClock, Moment)> {
        let read = || {
            let before = self.watch.now();
            let clock = self.cluster(node)?.clock;
            let took = self.watch.now().since(before);
            Ok((took, clock, before.saturating_add(Span::from_nanos(took.as_nanos() / 2))))
        };
        let readings: Vec<_> = (0..CLOCK_READINGS).map(|_| read()).collect::<Result<_>>()?;
        let best = readings.into_iter().min_by_key(|(took, _, _)| *took).context("no reading")?;
        Ok((best.1, best.2))
    }

    // What can be waited for.

    /// Waits until every partition has an owner that is none of these sessions, and claims that it took no longer than it
    /// may.
    ///
    /// # Errors
    /// When it takes far too long.
    pub fn claim_owned_again(&mut self, since: Moment, without: &BTreeSet<String>, bound: Span) -> Result<Moment> {
        let owned = |cluster: &Cluster| {
            let old = |session: &str| without.contains(session);
            cluster.is_owned() && cluster.nodes.iter().all(|member| member.partitions == 0 || !old(&member.session))
        };
        self.wait("every partition being owned again", |stage| {
            (0..NODES).any(|node| !stage.serving[node].is_down() && stage.cluster(node).is_ok_and(|seen| owned(&seen)))
        })?;
        let at = self.mark("owned again");
        self.measure("owned again", since, at, bound);
        Ok(at)
    }

    /// The same for a loss that is found out by a lease running out.
    ///
    /// # Errors
    /// As [`claim_owned_again`](Stage::claim_owned_again).
    pub fn claim_taken_over(&mut self, since: Moment, without: &BTreeSet<String>) -> Result<Moment> {
        self.claim_owned_again(since, without, OWNED_AGAIN)
    }

    /// Waits until a node that was down says that it is ready.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn up(&mut self, node: usize) -> Result<()> {
        self.wait("a node being ready", |stage| stage.admin.is_ready(&admin_address(node)))?;
        let now = self.mark(format!("{} is ready", name(node)));
        self.serving[node].begins(now);
        Ok(())
    }

    /// Waits until all nodes live, as voters, see the same, and every partition is owned.
    ///
    /// # Errors
    /// When that does not come about.
    pub fn settle(&mut self) -> Result<Moment> {
        self.wait("a whole cluster", |stage| {
            let seen: Vec<Cluster> = (0..NODES).filter_map(|node| stage.cluster(node).ok()).collect();
            let agree = seen.windows(2).all(|two| two[0].map_version == two[1].map_version);
            let ready = (0..NODES).all(|node| stage.admin.is_ready(&admin_address(node)));
            seen.len() == NODES && agree && ready && seen.iter().all(|cluster| cluster.is_settled(NODES))
        })?;
        let now = self.mark("settled");
        for serving in &mut self.serving {
            serving.begins(now);
        }
        Ok(now)
    }

    /// Lets time pass: a script's own pace, and never in place of an event.
    pub fn pass(&self, time: Duration) {
        std::thread::sleep(time);
    }

    // What can be said.

    /// Writes down that something happens now, and returns the moment.
    pub fn mark(&mut self, says: impl Into<String>) -> Moment {
        let (at, says) = (self.watch.now(), says.into());
        self.notes.marks.push(Mark { at, says });
        at
    }

    /// Writes down how long something took.
    pub fn measure(&mut self, what: &str, from: Moment, until: Moment, bound: Span) {
        let stalled = self.sleeper.so_far(from, until);
        self.notes.measured.push(Measured { what: what.to_owned(), took: until.since(from), bound, stalled });
    }

    /// Writes down something that ought to be so; `but` says what was seen instead.
    pub fn claim(&mut self, says: impl Into<String>, but: Option<String>) {
        self.notes.claims.push(Claim { says: says.into(), but });
    }

    fn down(&mut self, node: usize, how: &str) -> Moment {
        let at = self.mark(format!("{how} {}", name(node)));
        self.serving[node].ends(at);
        self.notes.victims.insert(node);
        at
    }

    fn wait(&mut self, what: &str, until: impl Fn(&Stage) -> bool) -> Result<()> {
        let began = Instant::now();
        while !until(self) {
            if let Some(place) = (0..NODES).find(|place| self.has_died(*place)) {
                bail!("{} ended by itself while waiting for {what}: {}", name(place), self.nodes[place].last_words());
            }
            if began.elapsed() > SETTLED_WITHIN {
                let waited = seconds(Span::from(began.elapsed()));
                bail!("waited {waited:.1} s for {what}; the logs lie in {}", self.folder.display());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    fn has_died(&mut self, place: usize) -> bool {
        let node = &mut self.nodes[place];
        node.was_started() && !node.is_running()
    }
}

/// The address of a node's admin API.
fn admin_address(node: usize) -> String {
    format!("{}:7602", net::address(node))
}

/// The sessions of these nodes, as a cluster shows them.
pub fn sessions(cluster: &Cluster, nodes: &[usize]) -> BTreeSet<String> {
    nodes.iter().filter_map(|node| cluster.member(&name(*node))).map(|member| member.session.clone()).collect()
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}
