//! Folders that are named as classes, and the model's own order of those classes.

use std::path::Path;

use paint_data::Info;
use paint_data::dataset::{Labels, Options, entry};

use crate::{Error, Result, model};

/// Tells datasets that know classes by name what the model calls its own, unless the user does.
pub(crate) fn name<'a>(
    weights: &Path,
    datasets: impl IntoIterator<Item = (&'a String, &'a mut Options)>,
) -> Result<()> {
    for (name, options) in datasets {
        if entry(name)?.is_named && is_open(options) {
            options.classes = model::class_names(weights)?;
        }
    }
    Ok(())
}

fn is_open(options: &Options) -> bool {
    options.classes.is_empty() && options.labels == Labels::Read
}

/// Refuses labels that cannot be those of a model.
pub(crate) fn check(options: &Options, info: &Info, num_classes: usize) -> Result<()> {
    // Other datasets have as many classes as their labels show.
    let is_fixed = entry(info.name).is_ok_and(|entry| entry.benchmark.is_some());
    let fits =
        if is_fixed { info.num_classes == num_classes } else { info.num_classes <= num_classes };
    if info.class_indices.is_none() && !fits {
        let found = info.num_classes;
        return Err(Error::config(format!(
            "labels of {}: expected those of {num_classes} classes, as the model has, found {found}",
            info.name
        )));
    }
    check_names(options, info, num_classes)
}

/// Refuses names of classes that are not as many as a model's own, and fewer named folders than it has classes, whose
/// place among them nobody tells. As many as it has are in alphabetical order, as is usual.
pub(crate) fn check_names(options: &Options, info: &Info, num_classes: usize) -> Result<()> {
    let Some(names) = info.class_names.as_ref().filter(|names| names.len() != num_classes) else {
        return Ok(());
    };
    let count = names.len();
    Err(Error::config(if options.classes.is_empty() {
        format!(
            "{count} folders with names ({:?}, ...) for a model of {num_classes} classes whose names are not known: name the \
             folders by the number of their class, or give data.options.classes in the model's order",
            names[0]
        )
    } else {
        format!("names of classes: expected {num_classes}, as many as the model has, found {count}")
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_a_benchmark_are_for_a_model_of_as_many_classes() {
        let refused = |name, num_classes, model| {
            let info = Info { name, num_classes, class_indices: None, class_names: None };
            check(&Options::default(), &info, model).map_err(|error| error.to_string())
        };
        assert_eq!(refused("cifar10-c", 10, 10), Ok(()));
        let why = "labels of cifar10-c: expected those of 1000 classes, as the model has, found 10";
        assert!(refused("cifar10-c", 10, 1000).unwrap_err().ends_with(why));
        // Labels of other images show only how many classes there are at least.
        assert_eq!(refused("npy", 10, 1000), Ok(()));
        assert!(refused("npy", 11, 10).unwrap_err().contains("of 10 classes"));
    }
}
