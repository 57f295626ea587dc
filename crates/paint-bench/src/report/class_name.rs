//! What people call a class.

use paint_data::Info;
use paint_data::dataset::{CIFAR10_CLASSES, imagenet_class_name};

/// The name of a label, or its number where no name is known.
pub fn class_name(info: &Info, label: usize) -> String {
    let named = info.class_names.as_ref().and_then(|names| names.get(label).cloned());
    let known = named.or_else(|| match info.name {
        "cifar10" | "cifar10-c" | "embedded" => CIFAR10_CLASSES.get(label).map(|n| (*n).to_owned()),
        "imagenet-c" => imagenet_class_name(label).map(Into::into),
        "imagenet-r" => {
            let index = info.class_indices.as_ref().and_then(|indices| indices.get(label));
            index.and_then(|&index| imagenet_class_name(index)).map(Into::into)
        }
        _ => None,
    });
    known.unwrap_or_else(|| format!("class {label}"))
}
