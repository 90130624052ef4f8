//! Law 5 with live traffic: limits are changed in every way, from every algorithm to every other, by applying a policy
//! while all nodes are asked. What was used stays used, to the unit; nothing underflows; nothing is denied that there is
//! room for; and what an answer says about coming back holds.

mod changes;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::dev::Dev;
use crate::http;
use crate::patience::until;
use changes::Change;

/// Rounds before the change. In a round, each node is asked for one unit of each limit so many times.
const ROUNDS_BEFORE: usize = 2;
const UNITS_PER_NODE: usize = 3;

/// More rounds than it takes to use everything up.
const ROUNDS_MAX: usize = 60;

const NODES: usize = 3;

/// What was admitted under one limit, and what its answers said last.
#[derive(Debug, Default)]
struct Account {
    /// By the capacity that an answer named: units admitted under the numbers before and after the change.
    admitted: BTreeMap<u64, u64>,
    /// Answers of failure modes, which say nothing about the limit. An open one that admits so is charged afterwards.
    degraded: u64,
    /// What the last denial said, in milliseconds.
    retry_after: Option<u64>,
    /// Whether every answer of the last round was a denial.
    is_used_up: bool,
}

/// Asks a node for one unit of each limit.
fn ask(dev: &Dev, node: usize, changes: &[Change], changed: bool) -> Vec<Value> {
    let checks: Vec<_> = changes.iter().map(|change| change.check(changed)).collect();
    let batch = json!({ "checks": checks }).to_string();
    let answer = http::post_text(dev.api(node), "/v1/check/batch", "application/json", &batch).body;
    answer["decisions"].as_array().unwrap_or_else(|| panic!("{answer}")).clone()
}

/// All nodes are asked at the same time, and meanwhile something else happens.
fn round(dev: &Dev, changes: &[Change], changed: bool, meanwhile: impl FnOnce() + Send) -> Vec<Vec<Value>> {
    std::thread::scope(|scope| {
        let node = |node| move || (0..UNITS_PER_NODE).map(|_| ask(dev, node, changes, changed)).collect::<Vec<_>>();
        let asked: Vec<_> = (1..=NODES).map(|number| scope.spawn(node(number))).collect();
        let other = scope.spawn(meanwhile);
        let answers = asked.into_iter().flat_map(|asked| asked.join().unwrap()).collect();
        other.join().unwrap();
        answers
    })
}

impl Account {
    fn take_down(&mut self, change: &Change, decision: &Value) {
        let leg = &decision["limits"][0];
        let allowed = decision["allowed"].as_bool().unwrap_or_else(|| panic!("{}: {decision}", change.name));
        let Some(capacity) = leg["capacity"].as_u64() else {
            self.degraded += 1;
            self.is_used_up = false;
            return;
        };
        let (before, after) = change.amounts();
        assert!(capacity == before || capacity == after, "{}: {decision}", change.name);
        let remaining = leg["remaining"].as_u64().unwrap();
        assert!(remaining < capacity, "{}: something is used, so not all remains: {decision}", change.name);
        if allowed {
            *self.admitted.entry(capacity).or_default() += 1;
            self.is_used_up = false;
        } else {
            assert_eq!((&decision["reason"], remaining), (&json!("limit"), 0), "{}: {decision}", change.name);
            self.retry_after = leg["retry_after_ms"].as_u64();
        }
    }

    /// Units admitted in all, and units that must have been: what was used before the change, and up to the new amount.
    fn totals(&self, change: &Change) -> (u64, u64) {
        let (before, after) = change.amounts();
        let total: u64 = self.admitted.values().sum();
        let used_before = if before == after { 0 } else { self.admitted.get(&before).copied().unwrap_or(0) };
        (total, after.max(used_before))
    }
}

#[cfg(not(feature = "test-clock"))]
fn start() -> Dev {
    Dev::start()
}

#[cfg(feature = "test-clock")]
fn start() -> Dev {
    Dev::start_with_test_clock()
}

/// Applies a policy and returns its revision.
fn apply(dev: &Dev, policy: &str) -> u64 {
    let applied = http::put_policy(dev.admin(2), "default", "*", policy);
    assert_eq!(applied.status, 200, "{:#}\n{policy}", applied.body);
    applied.body["revision"].as_u64().unwrap()
}

/// Waits until every node asks by this revision and decides by it.
fn wait_for(dev: &Dev, change: &Change, revision: u64) {
    let mut peek = change.check(false);
    peek["cost"] = json!(0);
    for node in 1..=NODES {
        until("the revision", || {
            let seen = http::check_with(dev.api(node), &peek).body;
            if seen["revision"] == revision { Ok(()) } else { Err(seen) }
        });
    }
}

#[test]
fn whatever_is_changed_about_a_limit_under_traffic_what_was_used_stays_used() {
    let mut dev = start();
    let changes = changes::all();
    let first = apply(&dev, &changes::policy(&changes, false));
    wait_for(&dev, &changes[0], first);
    let mut accounts: Vec<Account> = changes.iter().map(|_| Account::default()).collect();
    let mut used_up = false;
    for number in 0..ROUNDS_MAX {
        let changed = number > ROUNDS_BEFORE;
        let change_them = || {
            if number == ROUNDS_BEFORE {
                apply(&dev, &changes::policy(&changes, true));
            }
        };
        accounts.iter_mut().for_each(|account| account.is_used_up = true);
        for decisions in round(&dev, &changes, changed, change_them) {
            for ((account, change), decision) in accounts.iter_mut().zip(&changes).zip(&decisions) {
                account.take_down(change, decision);
            }
        }
        used_up = changed && accounts.iter().all(|account| account.is_used_up);
        if used_up {
            break;
        }
    }
    assert!(used_up, "{accounts:#?}");
    let degraded = accounts.iter().filter(|account| account.degraded > 0).count();
    for (account, change) in accounts.iter().zip(&changes) {
        let (total, expected) = account.totals(change);
        // What no owner answered in time may have been charged and not taken back, or the other way round.
        assert!(total.abs_diff(expected) <= account.degraded, "{}: {total} of {expected}: {account:?}", change.name);
    }
    assert!(
        degraded * 10 < changes.len(),
        "{degraded} of {} limits say little: the machine is too busy",
        changes.len()
    );
    promises_hold(&mut dev, &changes, &accounts);
}

/// Without a clock of the test's own nobody can wait for months: only that something is promised is looked at.
#[cfg(not(feature = "test-clock"))]
fn promises_hold(_: &mut Dev, changes: &[Change], accounts: &[Account]) {
    const YEAR_MS: u64 = 366 * 86_400_000;
    for (account, change) in accounts.iter().zip(changes) {
        let wait = account.retry_after.unwrap_or_else(|| panic!("{}: {account:?}", change.name));
        // A slot of a key that changed its algorithm is held for a whole lease, and a cell counts for two periods.
        assert!((1..=2 * YEAR_MS).contains(&wait), "{}: {wait} ms", change.name);
    }
}

/// A unit is there when a denial said that it would be, and not a millisecond before.
#[cfg(feature = "test-clock")]
fn promises_hold(dev: &mut Dev, changes: &[Change], accounts: &[Account]) {
    let mut by_wait: BTreeMap<u64, Vec<Change>> = BTreeMap::new();
    for (account, change) in accounts.iter().zip(changes) {
        by_wait.entry(account.retry_after.unwrap()).or_default().push(change.clone());
    }
    let (mut now, mut compared, asked) = (0, 0, 2 * changes.len());
    for (wait, changes) in by_wait {
        for (at, allowed) in [(wait - 1, false), (wait, true)] {
            dev.command(&format!("clock +{}ms", at - now));
            now = at;
            for (change, decision) in changes.iter().zip(ask(dev, 1, &changes, true)) {
                if decision["degraded"] == false {
                    compared += 1;
                    assert_eq!(decision["allowed"], allowed, "{} at {at} of {wait} ms: {decision}", change.name);
                }
            }
        }
    }
    assert!(compared * 10 > 9 * asked, "{compared} of {asked} answers were an owner's");
}
