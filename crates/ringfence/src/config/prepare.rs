//! Everything that is looked at before a node starts: the settings, the secrets, the policies. `serve` starts from it, and
//! `config validate` ends with it, so that what the one accepts does not surprise the other.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use node::secret::Secrets;
use policy::Document;
use store::StoreConfig;

use crate::cli::Told;
use crate::config::file;
use crate::config::layers::{Effective, Sources};
use crate::config::mistake::{CODE, FileText, Mistake, Origin, Wrong};
use crate::config::secrets;
use crate::config::settings::{NodeSettings, Placed, RedisSettings};

/// Where the file lies when nobody says otherwise; it may be absent.
pub const DEFAULT_FILE: &str = "/etc/ringfence/ringfence.toml";

/// What a node starts from.
#[derive(Debug)]
pub struct Prepared {
    /// The settings.
    pub settings: NodeSettings,
    /// The secrets, as they were just read.
    pub secrets: Secrets,
    /// The documents to found with.
    pub policies: Vec<String>,
    /// Where the store is, if there is one.
    pub store: Option<StoreConfig>,
    /// What is allowed and better otherwise.
    pub warnings: Vec<String>,
}

/// What is wrong with a configuration.
#[derive(Debug, Default)]
pub struct Refusal {
    /// Mistakes in the settings.
    pub mistakes: Vec<Mistake>,
    /// Mistakes in the documents of `policy.initial`, as `policy validate` prints them.
    pub policies: Vec<String>,
}

impl Refusal {
    /// All of it for people.
    pub fn render(&self) -> String {
        self.mistakes.iter().map(Mistake::render).chain(self.policies.iter().cloned()).collect()
    }

    fn is_empty(&self) -> bool {
        self.mistakes.is_empty() && self.policies.is_empty()
    }
}

/// Gathers what may say something about the settings: these flags, this process's environment, and the file.
///
/// # Errors
///
/// A file that cannot be read. The default file may be absent, one that somebody named may not.
pub fn gather(told: &Told) -> anyhow::Result<Sources> {
    let named = told.config.as_deref();
    let path = named.unwrap_or(Path::new(DEFAULT_FILE));
    let file = match file::load(path) {
        Ok(file) => Some(Arc::new(file)),
        Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(|| format!("{CODE}: {} cannot be read", path.display())),
    };
    let environment = std::env::vars_os().filter_map(|(name, text)| {
        // What is not text is none of ours, or is refused by its odd value.
        Some((name.into_string().ok()?, text.to_string_lossy().into_owned()))
    });
    let host_name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Ok(Sources { flags: told.settings.0.clone(), environment: environment.collect(), file, host_name })
}

/// Looks at everything that a node would start from.
///
/// # Errors
///
/// Everything that is wrong with it. Nothing was started, nothing changed.
pub fn prepare(sources: &Sources) -> Result<Prepared, Refusal> {
    let mut refusal = Refusal::default();
    let effective = Effective::of(sources, &mut refusal.mistakes);
    let settings = NodeSettings::of(&effective, &mut refusal.mistakes);
    let Some(settings) = settings else { return Err(refusal) };
    let mut warnings = Vec::new();
    let secrets = secrets::read(&settings.cluster, &mut warnings);
    let policies = documents(&settings.policies, &mut refusal);
    let store = store(&settings, &mut warnings, &mut refusal);
    match secrets {
        Ok(read) if refusal.is_empty() => Ok(Prepared { settings, secrets: read.secrets, policies, store, warnings }),
        Ok(_) => Err(refusal),
        Err(mistakes) => {
            refusal.mistakes.extend(mistakes);
            Err(refusal)
        }
    }
}

fn store(settings: &NodeSettings, warnings: &mut Vec<String>, refusal: &mut Refusal) -> Option<StoreConfig> {
    let RedisSettings { url, password, ca_file } = settings.redis.clone()?;
    let mut config = StoreConfig::new(url, settings.cluster.name.clone());
    config.ca_file = ca_file;
    match password.map(|source| secrets::password(&source, warnings)).transpose() {
        Ok(None) => {}
        Ok(Some(password)) => config.url = config.url.with_password(&password),
        Err(mistake) => refusal.mistakes.push(mistake),
    }
    if let Err(error) = config.check() {
        let wrong = Wrong::new(format!("`redis`: {error}"), "");
        refusal.mistakes.push(wrong.at(Origin::Default("redis.url")));
    }
    Some(config)
}

fn documents(paths: &[Placed<PathBuf>], refusal: &mut Refusal) -> Vec<String> {
    let mut domains: Vec<(String, &Path)> = Vec::new();
    let mut texts = Vec::new();
    for said in paths {
        let path = said.value.as_path();
        let mut wrong = |message| refusal.mistakes.push(Wrong::new(message, "").at(said.origin.clone()));
        let FileText { text, .. } = match file::load(path) {
            Ok(file) => file,
            Err(error) => {
                wrong(format!("`{}`: {}: {error}", said.key, path.display()));
                continue;
            }
        };
        match Document::parse(&text) {
            Ok(document) => {
                let domain = document.domain().to_owned();
                if let Some((_, other)) = domains.iter().find(|(known, _)| *known == domain) {
                    let (one, other) = (path.display(), other.display());
                    wrong(format!("`{}`: {one} and {other} are both for the domain {domain}", said.key));
                }
                domains.push((domain, path));
                texts.push(text);
            }
            Err(errors) => {
                let file = path.display().to_string();
                refusal.policies.extend(errors.iter().map(|error| error.render(&file, &text)));
            }
        }
    }
    texts
}
