//! The page of the documentation with the measured table. It is written by a run and by nothing else.

use std::fmt::Write as _;

use crate::report::table;
use crate::trial::Trial;

const HEAD: &str = "# What happens when something breaks

For each event and each failure mode: what callers see, what bounds it, and what was measured. The figures come from one
run of the chaos suite, which wrote this page: three real nodes with the default lease (3 s, renewed every 0.5 s), each in
a network of its own, asked about some forty keys of seven limits, so often that every limit was used up all the time.

";

/// What comes before the rows of events in which nodes have a Redis.
const REDIS: &str = "
## With a Redis

The same nodes with a Redis 7 that has an address of its own, and in one event a replica. They are asked about as many keys of
other limits, most of which take longer than 10 s to forget, so that they are kept there. One of these, of 1,200 an hour, is
asked about all the time and never used up: what remains of it says what an owner knows. The fault begins when what every
node keeps counts.

";

const TAIL: &str = "
How to read it:

- *owned again*: from the fault until the map names a living owner for every partition. The bound is a lease (3 s), a change
  of leader (0.65 s) and a second of slack; what the machine itself was seen to stand still is granted on top.
- *volatile*, *durable again*: from the fault until the log says of every node that what it keeps in Redis does not count,
  and from when Redis could be reached again until it counts. At most 3 s and 8 s: a link that passes nothing on is left
  behind within 2 s; making a new one takes up to 2 s, and 5 s have to pass since Redis failed; a second of slack each.
- *a chunk*: what one write to Redis allows beyond what is used; a new owner takes it for used. *Keys with room*: those of the
  victims under the limit that is never used up; what their new owners admitted, and how many fewer remained of a key than
  had been left. A few more than a chunk may be missing: what was charged as its owner died, and told to nobody.
- *over*: the largest sum of admitted costs in any stretch of time, less what the limit allows in such a stretch, over all
  stretches, all keys and all limits of the mode, from the callers' own log.
- *open* limits are allowed to be over: by what was asked while nobody could count, and by what the lost owner knew, once.
- *emergency* limits let a share through at the node that was asked, on top of the limit or reserved from it; the share of
  all nodes together is bounded, and so is each node's.
- *slowest answer*: of a node that was up, as its caller saw it; callers gave 250 ms. A caller whose node is frozen gets its
  answer from another.
";

/// The page.
pub fn page(trials: &[Trial], command: &str) -> String {
    let mut text = HEAD.to_owned();
    let _ = writeln!(text, "Made by:\n\n```sh\n{command}\n```\n");
    let (beside, without): (Vec<&Trial>, Vec<&Trial>) = trials.iter().partition(|trial| trial.notes.has_redis);
    rows(&mut text, &without);
    if !beside.is_empty() {
        text += REDIS;
        rows(&mut text, &beside);
    }
    text + TAIL
}

fn rows(text: &mut String, trials: &[&Trial]) {
    let _ = writeln!(text, "| event | mode | what callers see | bound | measured |\n|---|---|---|---|---|");
    for cells in trials.iter().flat_map(|trial| table::rows(trial)) {
        let table::Cells { event, mode, callers, bound, measured } = cells;
        let _ = writeln!(text, "| {event} | {mode} | {callers} | {bound} | {measured} |");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::made_up;

    #[test]
    fn the_page_names_the_command_and_every_row_has_five_cells() {
        let mut beside = made_up::trial();
        beside.notes.has_redis = true;
        let (before, after) =
            page(&[beside], "run me").split_once("## With a Redis").map_or((0, 0), |(before, after)| {
                let rows = |text: &str| text.lines().filter(|line| line.starts_with("| ")).count();
                (rows(before), rows(after))
            });
        assert_eq!((before, after), (1, 1 + 3), "events with a Redis have a table of their own");
        let page = page(&[made_up::trial()], "run me");
        assert!(page.contains("```sh\nrun me\n```"));
        let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| ")).collect();
        assert_eq!(rows.len(), 1 + 3);
        assert!(rows.iter().all(|row| row.matches(" | ").count() == 4), "{rows:#?}");
    }
}
