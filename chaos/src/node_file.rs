//! The configuration file of a node, as an operator would write it.

use std::path::Path;

use crate::net;

/// What a node of the suite is told.
pub struct NodeFile<'a> {
    /// Its place, from 0.
    pub place: usize,
    /// How many nodes found the cluster.
    pub founders: usize,
    /// Where it keeps what it must not forget.
    pub data_dir: &'a Path,
    /// The file with the cluster's secret.
    pub secret_file: &'a Path,
    /// The policy that the cluster is founded with.
    pub policy_file: &'a Path,
    /// SHA-256 of the callers' token, in hexadecimal digits.
    pub check_token: &'a str,
    /// The same of the operators' token.
    pub admin_token: &'a str,
}

/// The name of the node with this place.
pub fn name(place: usize) -> String {
    net::namespace(place)
}

impl NodeFile<'_> {
    /// The file.
    pub fn text(&self) -> String {
        let own = net::address(self.place);
        let all = 0..self.founders;
        let seeds = all.clone().map(|place| format!("\"{}:7601\"", net::address(place))).collect::<Vec<_>>().join(", ");
        let founders = all.map(|place| format!("\"{}\"", name(place))).collect::<Vec<_>>().join(", ");
        let path = |path: &Path| format!("{:?}", path.display().to_string());
        format!(
            r#"[node]
name = "{name}"
data_dir = {data_dir}

[api]
listen = "{own}:7600"

[peer]
listen = "{own}:7601"

[admin]
listen = "{own}:7602"

[cluster]
name = "chaos"
seeds = [{seeds}]
founders = [{founders}]
secret_file = {secret_file}

[policy]
initial = [{policy_file}]

[auth]
tokens = [
  {{ name = "callers", sha256 = "{check}", scopes = ["check"], domains = ["chaos"] }},
  {{ name = "operators", sha256 = "{admin}", scopes = ["read", "admin"] }},
]

[log]
format = "text"
level = "info"
"#,
            name = name(self.place),
            data_dir = path(self.data_dir),
            secret_file = path(self.secret_file),
            policy_file = path(self.policy_file),
            check = self.check_token,
            admin = self.admin_token,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_told_its_own_addresses_and_everybodys_names() {
        let file = NodeFile {
            place: 1,
            founders: 3,
            data_dir: Path::new("/d/n2"),
            secret_file: Path::new("/d/secret"),
            policy_file: Path::new("/d/policy.yaml"),
            check_token: "aa",
            admin_token: "bb",
        };
        let text = file.text();
        for line in [
            "name = \"n2\"",
            "data_dir = \"/d/n2\"",
            "listen = \"198.18.0.12:7601\"",
            "seeds = [\"198.18.0.11:7601\", \"198.18.0.12:7601\", \"198.18.0.13:7601\"]",
            "founders = [\"n1\", \"n2\", \"n3\"]",
            "secret_file = \"/d/secret\"",
            "initial = [\"/d/policy.yaml\"]",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        assert!(text.contains("sha256 = \"aa\", scopes = [\"check\"]"));
    }
}
