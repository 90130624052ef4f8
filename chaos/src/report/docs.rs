//! The page of the documentation with the measured table. It is written by a run and by nothing else.

use std::fmt::Write as _;

use crate::report::table;
use crate::trial::Trial;

const HEAD: &str = "# What happens when something breaks

For each event and each failure mode: what callers see, what bounds it, and what was measured. The figures come from one
run of the chaos suite, which wrote this page: three real nodes with the default lease (3 s, renewed every 0.5 s), each in
a network of its own, asked about some forty keys of seven limits, so often that every limit was used up all the time.

";

const TAIL: &str = "
How to read it:

- *owned again*: from the fault until the map names a living owner for every partition. The bound is a lease (3 s), a change
  of leader (0.65 s) and a second of slack; what the machine itself was seen to stand still is granted on top.
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
    let _ = writeln!(text, "| event | mode | what callers see | bound | measured |\n|---|---|---|---|---|");
    for cells in trials.iter().flat_map(table::rows) {
        let table::Cells { event, mode, callers, bound, measured } = cells;
        let _ = writeln!(text, "| {event} | {mode} | {callers} | {bound} | {measured} |");
    }
    text + TAIL
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::made_up;

    #[test]
    fn the_page_names_the_command_and_every_row_has_five_cells() {
        let page = page(&[made_up::trial()], "run me");
        assert!(page.contains("```sh\nrun me\n```"));
        let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| ")).collect();
        assert_eq!(rows.len(), 1 + 3);
        assert!(rows.iter().all(|row| row.matches(" | ").count() == 4), "{rows:#?}");
    }
}
