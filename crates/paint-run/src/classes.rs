//! Folders that are named as classes, and the model's own order of those classes.

use paint_data::Info;
use paint_data::dataset::{Labels, Options, entry};

use crate::config::Config;
use crate::{Error, Result, model};

/// Tells every dataset of a run that knows classes by name what the model calls its own, unless the user does.
pub(crate) fn name(config: &mut Config) -> Result<()> {
    let probed = config.probe.as_mut().and_then(|probe| probe.data.as_mut());
    let source = config.source.as_mut().map(|source| (&source.name, &mut source.options));
    let all = [Some((&config.data.name, &mut config.data.options)), source]
        .into_iter()
        .chain([probed.map(|data| (&data.name, &mut data.options))]);
    for (name, options) in all.flatten() {
        if entry(name)?.is_named && is_open(options) {
            options.classes = model::class_names(&config.model.weights)?;
        }
    }
    Ok(())
}

fn is_open(options: &Options) -> bool {
    options.classes.is_empty() && options.labels == Labels::Read
}

/// Refuses named folders that no name of the model puts in order, unless they are as many as its classes: alphabetical
/// order, as it is usual then, would give each of fewer folders another class.
pub(crate) fn check(options: &Options, info: &Info, num_classes: usize) -> Result<()> {
    match &info.class_names {
        Some(names) if options.classes.is_empty() && names.len() != num_classes => {
            Err(Error::config(format!(
                "data.options.classes: {} folders with names ({:?}, ...) for a model of {num_classes} classes whose names are \
                 not known: name the folders by the number of their class, or give the names in the model's order",
                names.len(),
                names[0],
            )))
        }
        _ => Ok(()),
    }
}
