//! `ringfence healthcheck`: for containers and load balancers, which want an exit code and one line.

use crate::calls::Calls;
use crate::cli::Target;
use crate::commands::put;
use crate::exit::Exit;

/// Asks the node whether it is ready to answer checks. It shows no token and reads no token file: readiness needs none.
pub fn run(target: &Target) -> anyhow::Result<Exit> {
    let answer = Calls::to(&target.admin).get("/readyz")?;
    if answer.is_ok() {
        put("ready\n");
        return Ok(Exit::Ok);
    }
    eprintln!("ringfence: not ready: {}", answer.problem());
    Ok(Exit::Failure)
}
