//! The Redis of a scenario: a server, or a primary and its replica, behind one address; what can be done to them, and what
//! nodes say of them.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use limits::Moment;

use crate::admin::{Cluster, ReportedRedis};
use crate::bounds::{STORE_BACK, STORE_LEFT};
use crate::net::{self, Cut, Host};
use crate::node_file::name;
use crate::redis::Redis;
use crate::signal::Signal;
use crate::stage::{NODES, Stage, write};
use crate::succession::{Knows, Succession};
use crate::terms::KEPT;

/// The mark of a cluster whose records count.
pub const DURABLE: &str = "durable";

impl Stage {
    /// Starts so many servers, of which the others follow the first, and tells the nodes' files of them, before any node is
    /// started. The cluster will be founded with the policy of [`KEPT`].
    ///
    /// # Errors
    /// When a server does not come up, or the files cannot be written.
    pub fn add_redis(&mut self, servers: usize) -> Result<()> {
        net::lead_to(0, NODES)?;
        for place in 0..servers {
            let mut redis = Redis::new(place, self.folder.join(Host::Store(place).name()));
            redis.start()?;
            self.stores.push(redis);
        }
        for follower in &self.stores[1..] {
            follower.follow(&self.stores[0])?;
        }
        (self.policy, self.notes.has_redis) = (KEPT, true);
        write(&self.folder.join("policy.yaml"), KEPT)?;
        for place in 0..NODES {
            let path = self.folder.join(name(place)).join("node.toml");
            let mut file = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            write!(file, "\n[redis]\nurl = \"redis://{}:{}\"\n", net::STORE, net::STORE_PORT).context("a text")?;
            write(&path, &file)?;
        }
        Ok(())
    }

    // What can be done.

    /// `kill -9` of the server that nodes are led to. Returns when it was done.
    ///
    /// # Errors
    /// When it does not run.
    pub fn kill_redis(&mut self) -> Result<Moment> {
        let at = self.mark("kill -9 Redis");
        self.stores[self.primary].kill()?;
        Ok(at)
    }

    /// Starts it again, with what it has on disk. Returns when it answers.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start_redis(&mut self) -> Result<Moment> {
        self.stores[self.primary].start()?;
        Ok(self.mark("Redis answers"))
    }

    /// Takes its data away while it does not run.
    ///
    /// # Errors
    /// When it runs.
    pub fn wipe_redis(&mut self) -> Result<()> {
        self.mark("wipe Redis");
        self.stores[self.primary].wipe()
    }

    /// SIGSTOP of the server that nodes are led to. Returns when it was done.
    ///
    /// # Errors
    /// When it does not run.
    pub fn freeze_redis(&mut self) -> Result<Moment> {
        let at = self.mark("SIGSTOP Redis");
        self.stores[self.primary].signal(Signal::Stop)?;
        Ok(at)
    }

    /// SIGCONT. Returns when it was done.
    ///
    /// # Errors
    /// When it does not run.
    pub fn thaw_redis(&mut self) -> Result<Moment> {
        let at = self.mark("SIGCONT Redis");
        self.stores[self.primary].signal(Signal::Continue)?;
        Ok(at)
    }

    /// Nothing passes between the nodes and Redis any more, and nobody is told so. Returns when it was done.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn cut_redis(&mut self) -> Result<Moment> {
        let at = self.mark("cut Redis");
        let nodes: Vec<_> = (0..NODES).map(net::address).collect();
        net::cut(Host::Store(self.primary), &nodes, Cut::Both)?;
        Ok(at)
    }

    /// Mends that cut, and claims that it was felt. Returns when it was done.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn mend_redis(&mut self) -> Result<Moment> {
        self.mend_host(Host::Store(self.primary))
    }

    /// `FLUSHALL`, and claims that something was there and is gone. Returns when it was done.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn flush_redis(&mut self) -> Result<Moment> {
        let redis = &self.stores[self.primary];
        let before = redis.keys()?;
        redis.ask(&["FLUSHALL"])?;
        let after = redis.keys()?;
        let at = self.mark("FLUSHALL");
        let but = Some(format!("there were {before} keys before and {after} after")).filter(|_| after >= before);
        self.claim("the flush takes keys away", but);
        Ok(at)
    }

    /// The replica hears nothing of the primary any more.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn deafen_replica(&mut self) -> Result<()> {
        let replica = self.other();
        self.mark("the replica hears nothing");
        net::cut(Host::Store(replica), &[Host::Store(self.primary).address()], Cut::Both)
    }

    /// The primary stands still, its deaf replica takes its place, and nodes are led there. Claims that it lacks something.
    /// Returns when it was done.
    ///
    /// # Errors
    /// When one of the two does not answer before, or the other after.
    pub fn fail_over(&mut self) -> Result<Moment> {
        let (from, to) = (self.primary, self.other());
        let all = self.stores[from].place()?;
        self.stores[from].signal(Signal::Stop)?;
        self.stores[to].ask(&["REPLICAOF", "NO", "ONE"])?;
        let copied = self.stores[to].place()?;
        self.mend_host(Host::Store(to))?;
        net::lead_to(to, NODES)?;
        self.primary = to;
        let at = self.mark(format!("{} takes over from {}", Host::Store(to).name(), Host::Store(from).name()));
        let but = Some(format!("it was at {copied} of {all}")).filter(|_| copied >= all);
        self.claim("the replica lacks writes that were acknowledged", but);
        self.notes.facts.push(format!("{} bytes of writes lost with a primary", all.saturating_sub(copied)));
        Ok(at)
    }

    /// The server that stands still since a failover goes on, as a replica of the one that took its place.
    ///
    /// # Errors
    /// When it does not get into step.
    pub fn follow_back(&mut self) -> Result<()> {
        let replica = &self.stores[self.other()];
        replica.signal(Signal::Continue)?;
        replica.follow(&self.stores[self.primary])?;
        self.mark("the old primary follows");
        Ok(())
    }

    /// These nodes died, the first at that moment; whoever follows them has to know so much.
    pub fn succeeded(&mut self, at: Moment, victims: &[usize], knows: Knows) {
        let victims: BTreeSet<String> = victims.iter().map(|node| name(*node)).collect();
        self.notes.successions.push(Succession { at, victims, knows });
    }

    // What can be seen.

    /// The life of the server that nodes are led to.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn life(&self) -> Result<String> {
        self.stores[self.primary].life()
    }

    /// The sum of a number that every node reports of its Redis.
    ///
    /// # Errors
    /// When a node does not answer.
    pub fn sum(&self, number: impl Fn(&ReportedRedis) -> u64) -> Result<u64> {
        (0..NODES).map(|node| Ok(number(&self.cluster(node)?.redis.context("a node has no Redis")?))).sum()
    }

    // What can be waited for.

    /// Waits until what every node keeps counts, as every node that is up sees it, in the life of the server that they are led
    /// to.
    ///
    /// # Errors
    /// When it does not come about.
    pub fn wait_durable(&mut self) -> Result<Moment> {
        let life = self.life()?;
        self.wait_seen(&format!("every node being durable in {life}"), |seen| seen.is_durable_in(&life))?;
        Ok(self.mark(DURABLE))
    }

    /// The same, and claims that it took no longer than it may since Redis could be reached.
    ///
    /// # Errors
    /// As [`wait_durable`](Stage::wait_durable).
    pub fn claim_durable_again(&mut self, since: Moment) -> Result<()> {
        let at = self.wait_durable()?;
        self.measure("durable again", since, at, STORE_BACK);
        Ok(())
    }

    /// Waits until the log says of every node that what it keeps does not count, and claims that it took no longer than it may.
    /// Returns when it was so.
    ///
    /// # Errors
    /// When it does not come about.
    pub fn claim_volatile(&mut self, since: Moment) -> Result<Moment> {
        self.wait_seen("every node being volatile", Cluster::is_volatile)?;
        let at = self.mark("volatile");
        self.measure("volatile", since, at, STORE_LEFT);
        Ok(at)
    }

    /// Waits until the server that nodes are led to has handed its file all that it was told: while the disk is busy it may hold
    /// back two seconds of it, which a kill would take along.
    ///
    /// # Errors
    /// When that does not come about.
    pub fn wait_in_its_file(&mut self) -> Result<()> {
        self.wait("Redis' file having everything", |stage| {
            stage.stores[stage.primary].info("aof_buffer_length").is_ok_and(|waits| waits == "0")
        })
    }

    /// Waits until such a sum is higher than it was.
    ///
    /// # Errors
    /// When that does not come about.
    pub fn wait_counted(&mut self, what: &str, before: u64, number: fn(&ReportedRedis) -> u64) -> Result<()> {
        self.wait(what, |stage| stage.sum(number).is_ok_and(|now| now > before))
    }

    fn wait_seen(&mut self, what: &str, wanted: impl Fn(&Cluster) -> bool) -> Result<()> {
        self.wait(what, |stage| {
            let sees = |node| stage.cluster(node).is_ok_and(|seen| wanted(&seen));
            (0..NODES).all(|node| stage.serving[node].is_down() || sees(node))
        })
    }

    /// The place of the server that nodes are not led to, of two.
    fn other(&self) -> usize {
        1 - self.primary
    }
}
