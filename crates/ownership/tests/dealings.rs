//! What a process has to do with its store: which claims and writes are due, what their answers mean, and how long anybody
//! waits for them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::VecDeque;
use std::num::NonZeroU64;

use limits::{Moment, Span};
use ring::{NodeId, PartitionId};
use ringfence_ownership::kept::{
    AWAY_FOR, CLAIMS_AT_ONCE, Claim, Claimed, ClaimedAs, Dealings, Errand, FOUND_WITHIN, Gates, Incarnation, Keeper,
    LOOK_EVERY, News, Predecessor, REWRITTEN_WITHIN, Record, SILENT_AFTER, Store, Trust, Unanswered, Void,
    WRITES_AT_ONCE, WriteAnswer, Written,
};
use ringfence_ownership::{Epoch, Found, Recovered, SessionId, Write};

const X: Incarnation = Incarnation { run: [1; 20], history: [1; 20] };
const Y: Incarnation = Incarnation { run: [2; 20], history: [1; 20] };

/// Partitions that note down what becomes of them.
#[derive(Default)]
struct Noted {
    knows_time: bool,
    is_whole: bool,
    writes: VecDeque<(PartitionId, Write)>,
    /// Partitions whose reign is over.
    over: Vec<PartitionId>,
    notes: Vec<Note>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Note {
    Bound,
    Freed,
    Found(u16, &'static str, bool),
    NotFound(u16),
    Fenced(u16),
    Written(u16, Written),
}

impl Gates for Noted {
    fn knows_time(&self) -> bool {
        self.knows_time
    }

    fn bind_all(&mut self) {
        self.notes.push(Note::Bound);
    }

    fn free_all(&mut self) {
        self.notes.push(Note::Freed);
    }

    fn is_kept_whole(&mut self) -> bool {
        self.is_whole
    }

    fn claim_number(&mut self, partition: PartitionId, _: Keeper) -> Option<u64> {
        (!self.over.contains(&partition)).then_some(7)
    }

    fn found(&mut self, partition: PartitionId, _: Epoch, found: Found<'_>, bound: bool) -> Option<Recovered> {
        let (word, recovered) = match found {
            Found::Nobody => ("nobody", Recovered::Fresh),
            Found::Nothing => ("nothing", Recovered::WorstCase),
            Found::InDoubt => ("in doubt", Recovered::WorstCase),
            Found::Record(record) => ("record", Recovered::Allowance { keys: record.keys.len() }),
        };
        self.notes.push(Note::Found(partition.0, word, bound));
        Some(recovered)
    }

    fn not_found(&mut self, partition: PartitionId, _: Epoch) -> bool {
        self.notes.push(Note::NotFound(partition.0));
        true
    }

    fn fenced(&mut self, partition: PartitionId, _: Epoch) {
        self.notes.push(Note::Fenced(partition.0));
    }

    fn poll_write(&mut self) -> Option<(PartitionId, Write)> {
        self.writes.pop_front()
    }

    fn written(&mut self, partition: PartitionId, _: &Write, written: Written) -> bool {
        self.notes.push(Note::Written(partition.0, written));
        written == Written::Lost
    }
}

/// A process that is about something, and when.
struct Process {
    dealings: Dealings,
    gates: Noted,
    now: Moment,
}

impl Process {
    /// Its session lives, it knows the time, and nothing is known of the store.
    fn new() -> Process {
        let mut dealings = Dealings::new(Moment::ZERO);
        dealings.handle_log(Some((session(1), 0, None)), None, Moment::ZERO);
        Process { dealings, gates: Noted { knows_time: true, ..Noted::default() }, now: Moment::ZERO }
    }

    /// The same, and the store answers in X.
    fn connected() -> Process {
        let mut process = Process::new();
        process.sees(Store::Up(X));
        assert_eq!(process.errands(), []);
        process
    }

    /// The same, and the log says that what it keeps counts there.
    fn durable() -> Process {
        let mut process = Process::connected();
        process.gates.is_whole = true;
        process.wait(LOOK_EVERY);
        assert_eq!(process.errands(), [Errand::Propose { session: session(1), number: 1, store: Some(X) }]);
        process.dealings.handle_log(Some((session(1), 1, Some(X))), None, process.now);
        process.gates.notes.clear();
        process
    }

    fn sees(&mut self, store: Store) {
        self.dealings.handle_store(store, self.now);
    }

    fn wait(&mut self, time: Span) {
        self.now = self.now.saturating_add(time);
        self.dealings.handle_timeout(&mut self.gates, self.now);
    }

    fn wants(&mut self, claim: Claim) {
        self.dealings.handle_claim(Claim { since: self.now, ..claim });
    }

    fn errands(&mut self) -> Vec<Errand> {
        std::iter::from_fn(|| self.dealings.poll_errand(&mut self.gates, self.now)).collect()
    }

    /// Which partitions it claims now.
    fn claims(&mut self) -> Vec<u16> {
        let errands = self.errands().into_iter();
        let partitions = errands.map(|errand| {
            let Errand::Claim { claim, number: 7 } = errand else { panic!("{errand:?}") };
            claim.partition.0
        });
        partitions.collect()
    }

    fn claimed(&mut self, claim: Claim, claimed: Option<&Claimed>) {
        self.dealings.handle_claimed(&claim, claimed, &mut self.gates, self.now);
    }

    fn writes(&mut self, partition: u16, write: &Write) {
        self.gates.writes.push_back((PartitionId(partition), write.clone()));
        let (partition, write) = (PartitionId(partition), write.clone());
        assert_eq!(self.errands(), [Errand::Write { partition, write, life: X }]);
    }

    fn answers(&mut self, partition: u16, write: &Write, answer: Result<WriteAnswer, Unanswered>) {
        self.dealings.handle_written(PartitionId(partition), write, answer, &mut self.gates, self.now);
    }

    fn notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.gates.notes)
    }

    fn news(&mut self) -> Vec<News> {
        std::iter::from_fn(|| self.dealings.poll_news()).collect()
    }
}

fn session(nonce: u64) -> SessionId {
    SessionId { node: NodeId(NonZeroU64::MIN), nonce, counter: 1 }
}

fn keeper(epoch: u64, nonce: u64) -> Keeper {
    Keeper { epoch: Epoch(epoch), session: session(nonce) }
}

/// Of the second reign; the first was another session's, and its records counted in X.
fn claim(partition: u16) -> Claim {
    let before = Some(Predecessor { keeper: keeper(1, 9), store: Some(X), ended_at: 40 });
    Claim { partition: PartitionId(partition), keeper: keeper(2, 1), before, since: Moment::ZERO, again: false }
}

/// What the store had of the first reign, as told in this life.
fn taken(by: Incarnation) -> Claimed {
    let (complete, keys) = (true, Vec::new());
    let record = Record { keeper: keeper(1, 9), complete, count: 0, keys, assumed_full: None, unreadable: 0 };
    Claimed::Taken { by, record, previous_cluster: false }
}

fn write(anew: bool) -> Write {
    Write { keeper: keeper(2, 1), seq: 8, anew, assumed_full: None, keys: Vec::new() }
}

#[test]
fn so_many_are_claimed_at_once_and_the_next_when_one_is_answered_those_that_checks_wait_for_first() {
    let mut process = Process::connected();
    (0..CLAIMS_AT_ONCE as u16 + 4).for_each(|partition| process.wants(claim(partition)));
    process.dealings.handle_hurry(PartitionId(19));
    process.gates.over.push(PartitionId(3));
    let first: Vec<u16> = [19].into_iter().chain(0..3).chain(4..16).collect();
    assert_eq!(process.claims(), first, "of a reign that is over nothing is claimed");
    process.claimed(claim(5), Some(&taken(X)));
    assert_eq!((process.claims(), process.dealings.is_claiming()), (vec![16], true));
}

#[test]
fn nothing_is_claimed_before_the_store_answers_and_the_time_is_known() {
    let mut process = Process::new();
    process.wants(claim(3));
    assert_eq!(process.errands(), []);
    process.gates.knows_time = false;
    process.sees(Store::Up(X));
    assert_eq!(process.errands(), []);
    process.gates.knows_time = true;
    assert_eq!(process.claims(), [3]);
}

#[test]
fn what_a_claim_found_is_told_the_partition_and_the_operator() {
    let mut process = Process::connected();
    process.notes();
    let epoch = Epoch(2);
    for (partition, claimed, word, claimed_as) in [
        (1, taken(X), "record", ClaimedAs::Record),
        (2, taken(Y), "in doubt", ClaimedAs::Void(Void::OtherLife { held: X, by: Y })),
        (3, Claimed::New { by: X, previous_cluster: false }, "nothing", ClaimedAs::Void(Void::Nothing)),
    ] {
        process.claimed(claim(partition), Some(&claimed));
        assert_eq!(process.notes(), [Note::Found(partition, word, true)], "it is bound");
        let recovered = if word == "record" { Recovered::Allowance { keys: 0 } } else { Recovered::WorstCase };
        let partition = PartitionId(partition);
        assert_eq!(process.news(), [News::Claimed(claimed_as), News::Recovered { partition, epoch, recovered }]);
    }
    process.claimed(claim(4), Some(&Claimed::Fenced { keeper: keeper(5, 2) }));
    assert_eq!(process.notes(), [Note::Fenced(4)]);
    assert_eq!(process.news(), [News::ClaimLost { partition: PartitionId(4), epoch, by: Some(keeper(5, 2)) }]);
}

#[test]
fn what_an_earlier_session_of_this_process_finds_is_not_bound() {
    let mut process = Process::durable();
    let earlier = Claim { keeper: keeper(2, 3), ..claim(1) };
    process.claimed(earlier, Some(&taken(X)));
    assert_eq!(process.notes(), [Note::Found(1, "record", false)]);
}

#[test]
fn checks_wait_a_second_for_a_store_that_answers_others_and_a_moment_for_one_that_answers_nobody() {
    let mut process = Process::connected();
    process.notes();
    process.wants(claim(1));
    process.wait(AWAY_FOR);
    assert_eq!(process.notes(), [Note::NotFound(1)], "not asked yet, since nobody waits for an errand here");
    assert_eq!(process.news(), [News::WaitedInVain { partition: PartitionId(1) }]);
    process.wants(claim(2));
    for _ in 0..9 {
        process.claimed(claim(3), Some(&taken(X)));
        process.wait(Span::from_millis(100));
        assert!(!process.notes().contains(&Note::NotFound(2)));
    }
    process.claimed(claim(3), Some(&taken(X)));
    process.wait(FOUND_WITHIN.saturating_sub(Span::from_millis(900)));
    assert!(process.notes().contains(&Note::NotFound(2)));
}

#[test]
fn a_claim_of_which_nothing_is_heard_is_made_again_at_the_next_look() {
    let mut process = Process::connected();
    process.wants(claim(1));
    assert_eq!(process.claims(), [1]);
    process.claimed(claim(1), None);
    assert_eq!(process.claims(), [] as [u16; 0], "not at once");
    process.wait(LOOK_EVERY);
    assert_eq!(process.claims(), [1]);
}

#[test]
fn an_operators_word_has_what_was_in_doubt_claimed_again_and_counts_for_it() {
    let mut process = Process::connected();
    process.claimed(claim(1), Some(&taken(Y)));
    assert_eq!(process.claims(), [] as [u16; 0]);
    let trust = Some(Trust { incarnation: Y, since: 41 });
    process.dealings.handle_log(Some((session(1), 0, None)), trust, process.now);
    assert_eq!(process.claims(), [1]);
    process.notes();
    process.claimed(claim(1), Some(&taken(Y)));
    assert_eq!(process.notes(), [Note::Found(1, "record", true)]);
    process.dealings.handle_log(Some((session(1), 0, None)), trust, process.now);
    assert_eq!(process.claims(), [] as [u16; 0], "it was heard");
}

#[test]
fn a_new_session_begins_with_nothing_of_the_one_before() {
    let mut process = Process::durable();
    process.claimed(claim(1), Some(&taken(Y)));
    process.wants(claim(2));
    process.claimed(claim(3), None);
    process.dealings.handle_log(Some((session(2), 0, None)), None, process.now);
    assert_eq!(process.dealings.held(), None);
    let trust = Some(Trust { incarnation: Y, since: 41 });
    process.dealings.handle_log(Some((session(2), 0, None)), trust, process.now);
    assert_eq!(process.errands(), [], "no claim of the other session is made");
    assert_eq!(process.notes().last(), Some(&Note::Bound));
    process.wait(LOOK_EVERY);
    let proposed = Errand::Propose { session: session(2), number: 1, store: Some(X) };
    assert_eq!(process.errands(), [proposed]);
}

#[test]
fn writes_go_to_the_life_that_is_relied_on_so_many_at_once() {
    let mut process = Process::durable();
    (0..40).for_each(|partition| process.gates.writes.push_back((PartitionId(partition), write(false))));
    assert_eq!(process.errands().len(), WRITES_AT_ONCE);
    process.answers(0, &write(false), Ok(WriteAnswer::Ok));
    assert_eq!((process.errands().len(), process.dealings.is_writing()), (1, true));
    process.sees(Store::Up(Y));
    process.answers(1, &write(false), Ok(WriteAnswer::Ok));
    let unsaid = Errand::Propose { session: session(1), number: 2, store: None };
    assert_eq!(process.errands(), [unsaid], "in another life nothing is obeyed yet");
}

#[test]
fn a_writer_that_is_fenced_off_writes_no_more_and_one_whose_record_is_lost_claims_again() {
    let mut process = Process::durable();
    let (epoch, partition) = (Epoch(2), PartitionId(1));
    for by in [keeper(3, 2), keeper(2, 2)] {
        process.writes(1, &write(false));
        process.answers(1, &write(false), Ok(WriteAnswer::Lost { keeper: Some(by) }));
        assert_eq!(process.notes(), [Note::Fenced(1)]);
        assert_eq!(process.news(), [News::WriteFenced { partition, epoch, by }]);
    }
    for keeper in [None, Some(keeper(1, 9)), Some(keeper(2, 1))] {
        process.writes(1, &write(false));
        process.answers(1, &write(false), Ok(WriteAnswer::Lost { keeper }));
        assert_eq!(process.notes(), [Note::Written(1, Written::Lost)]);
        assert_eq!(process.news(), [News::RecordLost { partition }]);
        let claim = Claim { before: None, since: process.now, again: true, ..claim(1) };
        assert_eq!(process.errands(), [Errand::Claim { claim, number: 7 }]);
        process.claimed(claim, Some(&Claimed::Held { by: X }));
        process.notes();
        process.news();
    }
}

#[test]
fn a_partition_hears_what_became_of_its_write_as_far_as_anybody_knows() {
    let mut process = Process::durable();
    for (answer, note) in [
        (Ok(WriteAnswer::Ok), Note::Written(1, Written::Done)),
        (Ok(WriteAnswer::Stale), Note::Written(1, Written::Unknown)),
        (Err(Unanswered::Unknown), Note::Written(1, Written::Unknown)),
        (Err(Unanswered::NotSent), Note::Written(1, Written::NotSent)),
        (Err(Unanswered::TooLarge), Note::Fenced(1)),
    ] {
        process.writes(1, &write(false));
        process.answers(1, &write(false), answer);
        assert_eq!(process.notes(), [note], "{answer:?}");
        assert_eq!(process.errands(), []);
    }
}

/// A few keys are to be there at once, a whole partition within a second; a store that says no is no store.
#[test]
fn a_write_that_takes_too_long_or_is_refused_has_the_log_unsay_that_records_count() {
    let unsaid = [Errand::Propose { session: session(1), number: 2, store: None }];
    for (anew, patience) in [(false, SILENT_AFTER), (true, REWRITTEN_WITHIN)] {
        let mut process = Process::durable();
        process.writes(1, &write(anew));
        process.wait(patience.saturating_sub(LOOK_EVERY));
        assert_eq!(process.errands(), []);
        process.wait(LOOK_EVERY);
        assert_eq!(process.errands(), unsaid, "anew: {anew}");
    }
    let mut process = Process::durable();
    process.writes(1, &write(false));
    process.now = process.now.saturating_add(SILENT_AFTER);
    process.answers(1, &write(false), Ok(WriteAnswer::Ok));
    assert_eq!(process.errands(), unsaid, "it was seen when its answer came");
    let mut process = Process::durable();
    process.writes(1, &write(false));
    process.answers(1, &write(false), Err(Unanswered::Refused));
    assert_eq!((process.errands(), process.notes()), (unsaid.to_vec(), vec![Note::Written(1, Written::Unknown)]));
}

#[test]
fn time_matters_while_anything_waits_and_not_otherwise() {
    let mut process = Process::durable();
    assert_eq!(process.dealings.poll_timeout(), None);
    process.wants(claim(1));
    assert!(process.dealings.poll_timeout().is_some());
    process.claims();
    assert!(process.dealings.poll_timeout().is_some(), "its answer may not come");
    process.claimed(claim(1), Some(&taken(X)));
    assert_eq!(process.dealings.poll_timeout(), None);
    process.writes(2, &write(false));
    assert!(process.dealings.poll_timeout().is_some());
}
