//! ImageNet's classes: index, WordNet id, name.

use std::sync::LazyLock;

const CLASSES: &str = include_str!("../../data/imagenet_classes.csv");

/// ImageNet's number of classes.
pub(super) const NUM_CLASSES: usize = 1000;

struct Class {
    wnid: &'static str,
    name: &'static str,
}

/// In the order of the index, which is also the order of the WordNet ids.
static TABLE: LazyLock<Vec<Class>> = LazyLock::new(|| {
    let class = |line: &'static str| {
        let mut fields = line.splitn(3, ',');
        let (_, wnid, name) = (fields.next()?, fields.next()?, fields.next()?);
        Some(Class { wnid, name: name.trim_matches('"') })
    };
    CLASSES.lines().skip(1).filter_map(class).collect()
});

/// The index of a WordNet id.
pub(super) fn class_of_wnid(wnid: &str) -> Option<usize> {
    TABLE.binary_search_by(|class| class.wnid.cmp(wnid)).ok()
}

/// The class of a folder that is named by WordNet id, by index (`2`, `002`) or by name (`great white shark`,
/// `great_white_shark`). Two classes share the name `crane` and two `maillot`: these names say nothing.
pub(super) fn class_of_folder(folder: &str) -> Option<usize> {
    class_of_wnid(folder).or_else(|| match folder.parse::<u32>() {
        Ok(index) => Some(index as usize).filter(|index| *index < NUM_CLASSES),
        Err(_) => class_of_name(folder),
    })
}

/// By its own spelling first: `Cardigan` is a dog and `cardigan` a garment.
fn class_of_name(folder: &str) -> Option<usize> {
    let spaced = |name: &str| name.replace(['_', '-'], " ");
    let wanted = spaced(folder);
    let only = |same: &dyn Fn(&str) -> bool| {
        let mut named = TABLE.iter().enumerate().filter(|(_, class)| same(&spaced(class.name)));
        named.next().filter(|_| named.next().is_none()).map(|(index, _)| index)
    };
    only(&|name| name == wanted).or_else(|| only(&|name| name.eq_ignore_ascii_case(&wanted)))
}

/// The name of an ImageNet class, such as `great white shark` for 2.
pub fn imagenet_class_name(index: usize) -> Option<&'static str> {
    TABLE.get(index).map(|class| class.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_complete_ordered_and_searchable() {
        assert_eq!(TABLE.len(), NUM_CLASSES);
        assert!(TABLE.is_sorted_by(|a, b| a.wnid < b.wnid));
        assert_eq!(
            (class_of_wnid("n01484850"), imagenet_class_name(2)),
            (Some(2), Some("great white shark"))
        );
        assert_eq!(
            (class_of_wnid("n15075141"), imagenet_class_name(999)),
            (Some(999), Some("toilet tissue"))
        );
        assert_eq!((class_of_wnid("n00000000"), imagenet_class_name(1000)), (None, None));
    }

    #[test]
    fn a_folder_is_known_by_id_by_index_and_by_name() {
        for folder in ["n01484850", "2", "0002", "great white shark", "Great_White_Shark"] {
            assert_eq!(class_of_folder(folder), Some(2), "{folder}");
        }
        assert_eq!(
            [class_of_folder("Cardigan"), class_of_folder("cardigan")],
            [Some(264), Some(474)]
        );
        for folder in ["1000", "-1", "CARDIGAN", "crane", "maillot", "shark", ""] {
            assert_eq!(class_of_folder(folder), None, "{folder}");
        }
    }
}
