//! The compose cluster, as a user starts it, and what becomes of its limits when containers die. Everything goes through
//! what is published on the host: the program's commands, the admin API with the token, and a load over all three nodes.
//! A story of acts, each of which holds or ends it; the cluster is taken down in any case.

mod kept;
mod project;
mod shared;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use limits::Span;
use serde_json::json;
use sim::judge::{Circumstances, Violation};
use sim::{Clocks, Row, judge};

use crate::admin::{Admin, Cluster};
use crate::bounds::{LOOK_EVERY, SETTLED_WITHIN};
use crate::cli::say;
use crate::load::Callers;
use crate::serving::Serving;
use crate::stalls::{Sleeper, Stalls};
use crate::watch::{Watch, seconds};
use crate::{history_file, keys, terms};

use kept::Spender;
use project::{NODES, Project, REDIS, root};

/// How long the engine may take to see what a node's health has become: its first looks, and three in a row.
const HEALTH_WITHIN: Duration = Duration::from_secs(60);

/// How far off the edges of aligned windows may be: the cluster's time is the leader's, the watch is ours.
const UNSURE: Span = Span::from_millis(250);

/// What is spent of a key before its owner is killed.
const SPENT: u64 = 60;

/// What is spent of it while there is no Redis.
const SPENT_MEANWHILE: u64 = 20;

/// An act that held.
struct Act {
    claim: &'static str,
    took: Duration,
    figures: String,
}

struct Story<'a> {
    project: Project,
    program: &'a Path,
    out: &'a Path,
    token: String,
    acts: Vec<Act>,
}

/// Plays the story with this program in the image, and leaves a report, the history and, if it went wrong, the nodes' logs
/// in `out`.
///
/// # Errors
/// The act that did not hold, and why.
pub fn run(program: &Path, out: &Path) -> Result<()> {
    let began = Instant::now();
    fs::create_dir_all(out).with_context(|| format!("making {}", out.display()))?;
    let token = fs::read_to_string(token_file()).with_context(token_file)?.trim().to_owned();
    let mut story = Story { project: Project::new()?, program, out, token, acts: Vec::new() };
    let played = story.play();
    if played.is_err() {
        story.keep_logs();
    }
    let cleared = story.act("down leaves nothing behind", |story| {
        let left = story.project.down()?;
        ensure!(left.is_empty(), "left: {}", left.join(", "));
        Ok(String::new())
    });
    let ended = played.and(cleared);
    story.report(ended.is_ok())?;
    let (passed, failed) = (story.acts.len(), usize::from(ended.is_err()));
    let (word, time) = (if failed == 0 { "ok" } else { "FAILED" }, began.elapsed().as_secs_f64());
    // In the form of cargo test, as everything that the project's test command adds up.
    let counts = format!("{passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out");
    say(&format!("test result: {word}. {counts}; finished in {time:.2}s"));
    ended
}

impl Story<'_> {
    fn play(&mut self) -> Result<()> {
        self.act("the image runs the program, and not as root", |story| story.image())?;
        self.act("a founder that is alone is not healthy", |story| {
            story.project.up(&["n1"])?;
            let took = story.project.wait_for_health("n1", "unhealthy", HEALTH_WITHIN)?;
            let restarts = story.project.inspect("n1", "{{.RestartCount}}")?;
            ensure!(restarts == "0", "it did not wait for the others, it ended and was restarted {restarts} times");
            Ok(format!("known after {:.1} s", took.as_secs_f64()))
        })?;
        self.act("one command brings three nodes up, healthy", |story| story.bring_up())?;
        self.act("the admin port is shut without the token, and Redis without a password", |story| story.knock())?;
        self.act("Redis answers every node, and what they keep counts", |story| story.wait_until_durable(&|_| true))?;
        self.act("its replica is in step", |story| story.compare_replica())?;
        self.act("three calls to three nodes share one limit", |story| {
            story.ringfence(&["policy", "apply", &story.written("shared.yaml", shared::POLICY)?])?;
            shared::three_calls(&story.project.apis(), &story.token)
        })?;
        self.ringfence(&["policy", "apply", &self.written("kept.yaml", kept::POLICY)?])?;
        self.ringfence(&["policy", "apply", &self.written("chaos.yaml", terms::POLICY)?])?;
        self.under_load()?;
        self.act("a node that is stopped gives its partitions away and ends with 0", |story| story.stop_one())
    }

    /// Runs one act and says how it ended.
    fn act(&mut self, claim: &'static str, run: impl FnOnce(&Self) -> Result<String>) -> Result<()> {
        let began = Instant::now();
        match run(self) {
            Ok(figures) => {
                let took = began.elapsed();
                let more = if figures.is_empty() { String::new() } else { format!("; {figures}") };
                say(&format!("compose: {claim}: ok, {:.1} s{more}", took.as_secs_f64()));
                self.acts.push(Act { claim, took, figures });
                Ok(())
            }
            Err(error) => {
                say(&format!("compose: {claim}: FAILED: {error:#}"));
                Err(error.context(claim))
            }
        }
    }

    fn image(&self) -> Result<String> {
        let scratch = self.out.join("image");
        fs::create_dir_all(&scratch).with_context(|| format!("making {}", scratch.display()))?;
        self.project.build(self.program, &scratch)?;
        fs::remove_dir_all(&scratch).with_context(|| format!("removing {}", scratch.display()))?;
        let image = self.project.image();
        let version = self.project.docker(&["run", "--rm", "--read-only", "--network=none", image, "--version"])?;
        let facts = self.project.docker(&["image", "inspect", "--format", "{{.Config.User}} {{.Size}}", image])?;
        let (user, size) = facts.trim().split_once(' ').with_context(|| format!("`{facts}` is not two words"))?;
        let numbers: Vec<_> = user.split(':').map(str::parse::<u32>).collect();
        ensure!(numbers.iter().all(|id| id.as_ref().is_ok_and(|id| *id > 0)), "the image's user is `{user}`");
        Ok(format!("{}, user {user}, {:.0} MB", version.trim(), size.parse::<f64>()? / 1e6))
    }

    fn bring_up(&self) -> Result<String> {
        let began = Instant::now();
        self.project.up(&[])?;
        let up = began.elapsed();
        let status = self.ringfence(&["cluster", "status", "--wait", "20s"])?;
        let settled = began.elapsed();
        for (node, ..) in NODES {
            self.project.wait_for_health(node, "healthy", HEALTH_WITHIN)?;
        }
        say(status.trim_end());
        let healthy = began.elapsed();
        let [up, settled, healthy] = [up, settled, healthy].map(|time| time.as_secs_f64());
        Ok(format!("containers after {up:.1} s, settled after {settled:.1} s, all healthy after {healthy:.1} s"))
    }

    fn knock(&self) -> Result<String> {
        for (node, ..) in NODES {
            let status = Admin::new(&self.token).status(&self.project.admin(node), "/v1/cluster")?;
            ensure!(status == 401, "{node} answers {status}");
        }
        for service in REDIS {
            let answer = self.project.redis_of_nobody(service)?;
            ensure!(answer.starts_with("NOAUTH"), "{service} answers {answer}");
        }
        Ok(String::new())
    }

    /// Waits until every node has the same Redis, in a life that is wanted, and what it keeps there counts.
    fn wait_until_durable(&self, is_wanted: &dyn Fn(&str) -> bool) -> Result<String> {
        let began = Instant::now();
        let durable = |cluster: &Cluster| {
            let life = cluster.redis.as_ref().and_then(|redis| redis.life.as_deref());
            cluster.is_settled(NODES.len()) && life.is_some_and(|life| is_wanted(life) && cluster.is_durable_in(life))
        };
        for (node, ..) in NODES {
            self.wait_for(node, "every node being durable", durable)?;
        }
        Ok(format!("durable after {:.1} s", began.elapsed().as_secs_f64()))
    }

    /// Holds what the replica has against what the primary has, when both are at the same place of the stream.
    fn compare_replica(&self) -> Result<String> {
        let [primary, replica] = REDIS;
        self.project.wait_for_health(replica, "healthy", HEALTH_WITHIN)?;
        let place = |service: &str| -> Result<String> {
            let info = self.project.redis(service, &["info", "replication"])?;
            let place = info.lines().find_map(|line| line.trim().strip_prefix("master_repl_offset:"));
            Ok(place.with_context(|| format!("{service} says no place in the stream: {info}"))?.to_owned())
        };
        let began = Instant::now();
        loop {
            let (theirs, own) = (place(primary)?, place(replica)?);
            let counts = [primary, replica].map(|service| self.project.redis(service, &["dbsize"]));
            let [all, copied] = [counts[0].as_deref(), counts[1].as_deref()].map(|count| count.unwrap_or("none"));
            if theirs == own && all == copied && all != "0" {
                return Ok(format!("{all} hashes in both"));
            }
            ensure!(
                began.elapsed() < SETTLED_WITHIN,
                "{replica} is at {own} with {copied} hashes, {primary} at {theirs} with {all}"
            );
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Kills Redis and starts it again. What is spent meanwhile is spent as always.
    fn lose_redis(&self, spender: &Spender, key: &str) -> Result<(String, u64)> {
        let [redis, _] = REDIS;
        let (node, ..) = NODES[0];
        let before = self.wait_for(node, "a Redis", |cluster| cluster.redis.is_some())?.redis;
        let before = before.and_then(|redis| redis.life).context("Redis is not there to be killed")?;
        self.project.kill(redis)?;
        self.wait_for(node, "every node being volatile", Cluster::is_volatile)?;
        let left = spender.spend(key, SPENT_MEANWHILE)?;
        self.project.start(redis)?;
        let figures = self.wait_until_durable(&|life| life != before)?;
        Ok((format!("{SPENT_MEANWHILE} more spent meanwhile; back, {figures}"), left))
    }

    /// What happens while everybody asks; then the judge reads what they were told.
    fn under_load(&mut self) -> Result<()> {
        let watch = Watch::start();
        let terms = terms::of_policy(terms::POLICY, NODES.len() as u64, &|period| watch.edges(period, UNSURE))?;
        let callers = Callers::new(&self.project.apis(), &self.token)?;
        let limits: Vec<Arc<str>> = terms.iter().map(|terms| Arc::clone(&terms.limit)).collect();
        wait_for_policy(&callers, &limits[0])?;
        // Every node owns keys of every limit, so whichever dies is missed.
        let streams = keys::choose(&callers, &limits)?.into_iter().map(|chosen| chosen.stream).collect();
        let serving = RefCell::new(NODES.map(|(name, ..)| (Arc::<str>::from(name), Serving::default())));
        serving.borrow_mut().iter_mut().for_each(|(_, serving)| serving.begins(watch.now()));
        let sleeper = Sleeper::start(watch);
        let load = callers.ask(streams, watch);
        let scene = Scene { watch, serving: &serving };

        let [(first, ..), .., (last, ..)] = NODES;
        let spender = Spender::new(&self.project.apis(), &self.token)?;
        let (of_first, of_last) = (spender.key_of(first)?, spender.key_of(last)?);
        let (left, left_of_last) = (spender.spend(&of_first, SPENT)?, Cell::new(spender.spend(&of_last, SPENT)?));
        let id = self.node_id(first)?;
        self.act("a killed owner is replaced", |story| story.kill(first, &scene))?;
        self.act("what was used under it is known", |_| known(&spender, &of_first, left))?;
        self.act("it comes back as who it was", |story| {
            story.project.start(first)?;
            story.wait_until_back(first, &scene, |now| now == id)
        })?;
        self.act("Redis is killed and comes back, which costs nothing", |story| {
            story.wait_until_durable(&|_| true)?;
            let (figures, left) = story.lose_redis(&spender, &of_last)?;
            left_of_last.set(left);
            Ok(figures)
        })?;
        let id = self.node_id(last)?;
        self.act("one that lost its disk comes back as another node", |story| {
            let figures = story.kill(last, &scene)?;
            story.project.wipe(last)?;
            story.project.up(&[last])?;
            Ok(format!("{figures}, {}", story.wait_until_back(last, &scene, |now| now != id)?))
        })?;

        self.act("what was used under it, while there was no Redis too, is known", |_| {
            known(&spender, &of_last, left_of_last.get())
        })?;

        let rows = callers.finish(load);
        let stalls = sleeper.finish();
        history_file::write(&self.out.join("compose-history.jsonl"), &rows)?;
        let serving = serving.into_inner();
        self.act("no limit was exceeded meanwhile", |_| verdict(&rows, &terms, &serving, &stalls))
    }

    /// Kills a node and waits until everything it owned has another owner.
    fn kill(&self, node: &str, scene: &Scene<'_>) -> Result<String> {
        scene.of(node, |serving, now| serving.ends(now));
        self.project.kill(node)?;
        let dead = scene.watch.now();
        let survivor = NODES.iter().map(|(name, ..)| *name).find(|name| *name != node).expect("three names");
        let gone =
            |cluster: &Cluster| cluster.is_owned() && cluster.member(node).is_none_or(|member| member.state != "live");
        self.wait_for(survivor, "other owners", gone)?;
        let owned = scene.watch.now();
        // Told and not judged: nobody knows how long the engine kept the containers from running. Bare processes, whose
        // stalls are known, are held to the protocol's times by the rest of the suite.
        let took = owned.since(dead);
        Ok(format!("{node} dead, owned again after {:.1} s", seconds(took)))
    }

    /// Waits until all three nodes say that three live in one cluster, and this one among them.
    fn wait_until_back(&self, node: &str, scene: &Scene<'_>, is_who: impl Fn(&str) -> bool) -> Result<String> {
        let began = Instant::now();
        let back = |cluster: &Cluster| {
            cluster.is_settled(NODES.len()) && cluster.member(node).is_some_and(|member| is_who(&member.id))
        };
        let uuids = NODES.map(|(name, ..)| self.wait_for(name, &format!("{node} back, as one of three"), back));
        let uuids = uuids.into_iter().map(|cluster| Ok(cluster?.uuid)).collect::<Result<Vec<_>>>()?;
        ensure!(uuids.iter().all(|uuid| *uuid == uuids[0]), "there is more than one cluster: {}", uuids.join(", "));
        self.project.wait_for_health(node, "healthy", HEALTH_WITHIN)?;
        scene.of(node, |serving, now| serving.begins(now));
        Ok(format!("{node} settled after {:.1} s", began.elapsed().as_secs_f64()))
    }

    fn stop_one(&self) -> Result<String> {
        let [_, _, (node, ..)] = NODES;
        let code = self.project.stop(node)?;
        ensure!(code == 0, "{node} ended with {code}");
        let released =
            |cluster: &Cluster| cluster.is_owned() && cluster.member(node).is_none_or(|it| it.state == "released");
        self.wait_for("n1", "a released session", released)?;
        Ok(String::new())
    }

    /// Looks at the cluster through one node until it is as wanted.
    fn wait_for(&self, through: &str, what: &str, wanted: impl Fn(&Cluster) -> bool) -> Result<Cluster> {
        let (admin, address, began) = (Admin::new(&self.token), self.project.admin(through), Instant::now());
        loop {
            let seen = admin.cluster(&address);
            match seen {
                Ok(cluster) if wanted(&cluster) => return Ok(cluster),
                Ok(_) | Err(_) if began.elapsed() < SETTLED_WITHIN => std::thread::sleep(LOOK_EVERY),
                Ok(cluster) => bail!("waited {SETTLED_WITHIN:?} for {what}; {through} sees {cluster:?}"),
                Err(error) => return Err(error.context(format!("waited {SETTLED_WITHIN:?} for {what}"))),
            }
        }
    }

    fn node_id(&self, node: &str) -> Result<String> {
        let cluster = self.wait_for("n1", "a settled cluster", |cluster| cluster.is_settled(NODES.len()))?;
        Ok(cluster.member(node).context("a settled cluster of three has all three")?.id.clone())
    }

    /// One of the program's own commands, as a user types it.
    fn ringfence(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(self.program);
        command.args(words).args(["--admin", &self.project.admin("n1")]);
        let output =
            command.env("RINGFENCE_TOKEN_FILE", token_file()).output().with_context(|| format!("{command:?}"))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(
            output.status.success(),
            "ringfence {}: {}: {said}{}",
            words.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(said)
    }

    fn written(&self, name: &str, text: &str) -> Result<String> {
        let path = self.out.join(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        Ok(path.to_string_lossy().into_owned())
    }

    fn report(&self, held: bool) -> Result<()> {
        let act = |act: &Act| json!({ "claim": act.claim, "seconds": act.took.as_secs_f64(), "figures": act.figures });
        let acts: Vec<_> = self.acts.iter().map(act).collect();
        let report = json!({ "version": 1, "held": held, "acts": acts });
        self.written("compose.json", &format!("{report:#}\n")).map(drop)
    }

    /// For whoever has to find out what went wrong: the cluster itself is gone in a moment.
    fn keep_logs(&self) {
        for node in NODES.map(|(node, ..)| node).into_iter().chain(REDIS) {
            let kept = self.project.logs(node).and_then(|text| self.written(&format!("compose-{node}.log"), &text));
            match kept {
                Ok(path) => say(&format!("compose: {node} has logged {path}")),
                Err(error) => say(&format!("compose: {node}'s log is lost: {error:#}")),
            }
        }
    }
}

/// What the acts under load share: the clock of the history, and who could be asked when.
struct Scene<'a> {
    watch: Watch,
    serving: &'a RefCell<[(Arc<str>, Serving); 3]>,
}

impl Scene<'_> {
    fn of(&self, node: &str, change: impl FnOnce(&mut Serving, limits::Moment)) {
        let now = self.watch.now();
        let mut all = self.serving.borrow_mut();
        let (_, serving) = all.iter_mut().find(|(name, _)| &**name == node).expect("one of the three");
        change(serving, now);
    }
}

/// What is left of a key under its next owner, after one more was spent.
fn known(spender: &Spender, key: &str, left: u64) -> Result<String> {
    Ok(format!("{left} were left, {} now", spender.known(key, left)?))
}

/// A node that was only just told of a policy may not know it yet.
fn wait_for_policy(callers: &Callers, limit: &str) -> Result<()> {
    let began = Instant::now();
    while callers.owner_of(limit, "anybody").is_none() {
        ensure!(began.elapsed() < SETTLED_WITHIN, "nobody names an owner of any key of {limit}");
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// What the judge says of every limit; and that the faults were felt, since a load that never met one proves nothing.
fn verdict(rows: &[Row], terms: &[sim::Terms], serving: &[(Arc<str>, Serving)], stalls: &Stalls) -> Result<String> {
    let owed = |row: &Row| serving.iter().any(|(_, serving)| serving.covers(row.invoked, row.returned));
    let stalled = |row: &Row| stalls.within(row.invoked, row.returned);
    // A caller that gave up at its deadline cannot know what would have come within the stall.
    let unproven = |row: &Row| row.answer().is_none() && stalled(row) > Span::ZERO;
    let grace = |row: &Row| (owed(row) && !unproven(row)).then(|| stalled(row));
    let circumstances = Circumstances { clocks: Clocks::ALIKE, grace: &grace };
    let (mut excess, mut slow, mut broken) = (BTreeMap::new(), 0, Vec::new());
    for of_limit in terms {
        let verdict = judge(rows, of_limit, &circumstances)?;
        // Of a limit that fails open it is no broken promise: what its lost owner knew is lost with it, once.
        let of_mode = excess.entry(terms::mode_word(of_limit.fail)).or_insert(0);
        *of_mode = verdict.excess().max(*of_mode);
        for violation in verdict.violations {
            match violation {
                // Answers in time are asked of bare processes, by the rest of the suite. Here the engine's own proxy stands
                // in between, and a container that it starts takes what it needs of the machine; so they are only counted.
                Violation::Late { .. } | Violation::NoDecision { .. } => slow += 1,
                other @ (Violation::Over(_) | Violation::OpenRefused { .. } | Violation::Unjustified { .. }) => {
                    broken.push(format!("{}: {other}", of_limit.limit));
                }
            }
        }
    }
    ensure!(broken.is_empty(), "{} promises were broken, the first: {}", broken.len(), broken[0]);
    let mut asked: BTreeMap<&str, u64> = BTreeMap::new();
    rows.iter().filter(|row| row.answer().is_some()).for_each(|row| *asked.entry(&row.ingress).or_default() += 1);
    ensure!(asked.len() == NODES.len(), "answers came from {asked:?} only");
    let answered: u64 = asked.values().sum();
    ensure!(answered > rows.len() as u64 / 2, "of {} rows only {answered} were answered: {asked:?}", rows.len());
    let degraded = rows.iter().filter_map(Row::answer).filter(|answer| answer.degraded).count();
    ensure!(degraded > 0, "two nodes were killed, and every answer came from an owner all the same");
    let excess: Vec<String> = excess.iter().map(|(mode, units)| format!("{mode} {units}")).collect();
    let (rows, excess) = (rows.len(), excess.join(", "));
    Ok(format!("{rows} rows, {degraded} of them without an owner, {slow} late or silent; worst excess: {excess}"))
}

fn token_file() -> String {
    root().join("deploy/development.token").to_string_lossy().into_owned()
}
