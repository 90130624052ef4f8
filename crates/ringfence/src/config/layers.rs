//! Four layers, one above the other: flags, the environment, the file, the defaults. For each setting the highest layer
//! that says something counts, and it is remembered which one that was.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::file;
use crate::config::mistake::{FileText, Mistake, Origin, Wrong, nearest};
use crate::config::table::{Fallback, SETTINGS, Setting, VARIABLE_PREFIX, setting};
use crate::config::value::Value;

/// What one layer says, by key.
pub type Layer = BTreeMap<&'static str, Said>;

/// What is said of one setting.
#[derive(Clone, Debug)]
pub struct Said {
    /// The value; `None` if it is absent, or was a mistake.
    pub value: Option<Value>,
    /// Where.
    pub origin: Origin,
}

/// Everything that may say something.
#[derive(Debug, Default)]
pub struct Sources {
    /// Flags, by key.
    pub flags: Vec<(&'static str, String)>,
    /// The environment; what is not ours is left alone.
    pub environment: Vec<(String, String)>,
    /// The node file.
    pub file: Option<Arc<FileText>>,
    /// What the machine is called.
    pub host_name: String,
}

/// What holds for each setting, and where that was said.
#[derive(Debug)]
pub struct Effective {
    said: Layer,
    whole: bool,
}

impl Effective {
    /// Lays the layers one above the other, and puts what is wrong with any of them into `mistakes`.
    pub fn of(sources: &Sources, mistakes: &mut Vec<Mistake>) -> Effective {
        let from_file = match &sources.file {
            Some(file) => file::read(file, mistakes),
            None => Some(Layer::new()),
        };
        let whole = from_file.is_some();
        let from_environment = environment(&sources.environment, mistakes);
        let from_flags = flags(&sources.flags, mistakes);
        let mut layers = [from_flags, from_environment, from_file.unwrap_or_default()];
        let mut said = Layer::new();
        for one in SETTINGS {
            let above = layers.iter_mut().find_map(|layer| layer.remove(one.key));
            said.insert(one.key, above.unwrap_or_else(|| default(one, &sources.host_name, mistakes)));
        }
        Effective { said, whole }
    }

    /// Whether the file could be read as TOML. If not, nothing can be said about what it leaves out.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// What holds for this key of the table.
    pub fn said(&self, key: &'static str) -> &Said {
        self.said.get(key).expect("there is an entry for every key of the table")
    }

    /// The value that holds for this key, where a default that repeats another setting counts as a value.
    pub fn value(&self, setting: &Setting) -> Option<&Value> {
        let said = self.said(setting.key);
        match (said.value.as_ref(), said.origin.rank(), setting.fallback) {
            (None, 0, Fallback::As(other)) => self.said(other).value.as_ref(),
            (value, _, _) => value,
        }
    }
}

fn flags(given: &[(&'static str, String)], mistakes: &mut Vec<Mistake>) -> Layer {
    let said = given.iter().filter_map(|(key, text)| Some((setting(key)?, text)));
    said.map(|(setting, text)| heard(setting, text, Origin::Flag(setting.flag()), mistakes)).collect()
}

/// A variable that is empty says nothing: that is how a compose file leaves one out.
fn environment(variables: &[(String, String)], mistakes: &mut Vec<Mistake>) -> Layer {
    let mut layer = Layer::new();
    let ours = variables.iter().filter(|(name, text)| is_ours(name) && !text.is_empty());
    for (name, text) in ours {
        let origin = Origin::Variable(name.clone());
        match SETTINGS.iter().find(|setting| setting.variable() == *name) {
            Some(setting) => layer.extend([heard(setting, text, origin, mistakes)]),
            None => mistakes.push(unknown_variable(name).at(origin)),
        }
    }
    layer
}

/// `RINGFENCE_API` is not one of the settings; everything with `__` is meant to be.
fn is_ours(name: &str) -> bool {
    name.strip_prefix(VARIABLE_PREFIX).is_some_and(|rest| rest.contains("__"))
}

fn unknown_variable(name: &str) -> Wrong {
    let variables: Vec<_> = SETTINGS.iter().map(Setting::variable).collect();
    let suggestion = nearest(name, variables.iter().map(String::as_str)).map(|name| format!("`{name}`"));
    Wrong {
        message: "no setting has this variable".to_owned(),
        expected: format!("{VARIABLE_PREFIX}SECTION__KEY, as `ringfence config reference` lists them"),
        suggestion,
    }
}

fn heard(setting: &'static Setting, text: &str, origin: Origin, mistakes: &mut Vec<Mistake>) -> (&'static str, Said) {
    let value = Value::from_text(setting.kind, text);
    let value = value.map_err(|wrong| mistakes.push(wrong.at(origin.clone()))).ok();
    (setting.key, Said { value, origin })
}

fn default(setting: &'static Setting, host_name: &str, mistakes: &mut Vec<Mistake>) -> Said {
    let origin = Origin::Default(setting.key);
    let value = match setting.fallback {
        Fallback::Text(text) => Value::from_text(setting.kind, text).ok(),
        Fallback::HostName => {
            let name = Value::from_text(setting.kind, host_name);
            name.map_err(|wrong| {
                let message = format!("the host name is no name for a node: {}", wrong.message);
                mistakes.push(Wrong { message, ..wrong }.at(origin.clone()));
            })
            .ok()
        }
        Fallback::As(_) | Fallback::Absent | Fallback::Required => None,
    };
    Said { value, origin }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Option<Arc<FileText>> {
        Some(Arc::new(FileText { path: "n.toml".into(), text: text.to_owned() }))
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    fn shown(effective: &Effective, key: &'static str) -> String {
        let value = effective.value(setting(key).unwrap()).unwrap();
        format!("{} from {}", value.toml(setting(key).unwrap().kind), effective.said(key).origin)
    }

    fn rendered(sources: &Sources) -> String {
        let mut mistakes = Vec::new();
        Effective::of(sources, &mut mistakes);
        mistakes.iter().map(Mistake::render).collect()
    }

    #[test]
    fn flag_beats_environment_beats_file_beats_default() {
        let sources = Sources {
            flags: vec![("lease.ttl", "7s".to_owned())],
            environment: pairs(&[("RINGFENCE_LEASE__TTL", "6s"), ("RINGFENCE_LEASE__RENEW", "600ms")]),
            file: file("[lease]\nttl = \"5s\"\nrenew = \"550ms\"\n[cluster]\nseeds = [\"n1:7601\", \"n2:7601\"]\n"),
            host_name: "box".to_owned(),
        };
        let mut mistakes = Vec::new();
        let effective = Effective::of(&sources, &mut mistakes);
        assert!(mistakes.is_empty(), "{mistakes:?}");
        assert_eq!(shown(&effective, "lease.ttl"), "\"7s\" from flag --lease-ttl");
        assert_eq!(shown(&effective, "lease.renew"), "\"600ms\" from env RINGFENCE_LEASE__RENEW");
        assert_eq!(shown(&effective, "cluster.seeds"), "[\"n1:7601\", \"n2:7601\"] from file n.toml:5:1");
        assert_eq!(shown(&effective, "node.name"), "\"box\" from default");
        assert_eq!(shown(&effective, "api.advertise"), "\"127.0.0.1:7600\" from default");
        assert!(effective.value(setting("cluster.founders").unwrap()).is_none());
    }

    #[test]
    fn every_default_reads_as_a_value_of_its_kind() {
        let mut mistakes = Vec::new();
        let effective = Effective::of(&Sources { host_name: "box".to_owned(), ..Sources::default() }, &mut mistakes);
        assert!(mistakes.is_empty(), "{mistakes:?}");
        for one in SETTINGS {
            let absent = matches!(one.fallback, Fallback::Absent | Fallback::Required);
            assert_eq!(effective.value(one).is_none(), absent, "{}", one.key);
        }
    }

    #[test]
    fn an_empty_variable_says_nothing_and_those_of_others_are_left_alone() {
        let environment = pairs(&[
            ("RINGFENCE_NODE__NAME", ""),
            ("RINGFENCE_API", "n1:7600"),
            ("RINGFENCE_LOG", "debug"),
            ("OTHER__THING", "x"),
        ]);
        let sources = Sources { environment, host_name: "box".to_owned(), ..Sources::default() };
        assert_eq!(rendered(&sources), "");
    }

    #[test]
    fn an_unknown_variable_is_a_mistake_with_the_nearest_name() {
        let environment = pairs(&[("RINGFENCE_NODE__NAM", "n1"), ("RINGFENCE_LEASE__TTL", "soon")]);
        let sources = Sources { environment, host_name: "box".to_owned(), ..Sources::default() };
        assert_eq!(
            rendered(&sources),
            "RINGFENCE_NODE__NAM: no setting has this variable [bad-config]\n  expected: RINGFENCE_SECTION__KEY, as `ringfence config reference` lists them\n  did you mean: `RINGFENCE_NODE__NAME`\nRINGFENCE_LEASE__TTL: `soon` does not fit [bad-config]\n  expected: a time with its unit (ms, s or min), such as \"250ms\" or \"10s\"\n"
        );
    }

    #[test]
    fn a_host_name_that_cannot_be_a_name_matters_only_where_it_is_used() {
        let mut sources = Sources { host_name: "two words".to_owned(), ..Sources::default() };
        assert!(rendered(&sources).starts_with("node.name: the host name is no name for a node: `two words`"));
        sources.flags.push(("node.name", "n1".to_owned()));
        assert_eq!(rendered(&sources), "");
    }
}
