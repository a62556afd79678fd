//! Types that rpm demands of the tags of a main header: it refuses to read one where a tag that it knows has another
//! type (`lib/header.c`, `hdrchkTagType`, since 4.15). Source: `include/rpm/rpmtag.h` of rpm 4.18; tags that are not
//! here may have any type, and the three types of text count as one.

use super::header::Kind;

/// First tag, last tag, type; text is [`Kind::String`].
const TYPES: &[(u32, u32, Kind)] = &[
    (100, 100, Kind::String),
    (257, 257, Kind::Int32),
    (259, 259, Kind::Binary),
    (261, 262, Kind::Binary),
    (266, 266, Kind::String),
    (267, 268, Kind::Binary),
    (269, 269, Kind::String),
    (270, 271, Kind::Int64),
    (273, 273, Kind::String),
    (276, 276, Kind::String),
    (277, 277, Kind::Int32),
    (1000, 1002, Kind::String),
    (1003, 1003, Kind::Int32),
    (1004, 1005, Kind::String),
    (1006, 1006, Kind::Int32),
    (1007, 1007, Kind::String),
    (1008, 1009, Kind::Int32),
    (1010, 1011, Kind::String),
    (1012, 1013, Kind::Binary),
    (1014, 1016, Kind::String),
    (1018, 1027, Kind::String),
    (1028, 1028, Kind::Int32),
    (1029, 1029, Kind::Char),
    (1030, 1030, Kind::Int16),
    (1033, 1033, Kind::Int16),
    (1034, 1034, Kind::Int32),
    (1035, 1036, Kind::String),
    (1037, 1037, Kind::Int32),
    (1039, 1040, Kind::String),
    (1043, 1043, Kind::Binary),
    (1044, 1044, Kind::String),
    (1045, 1046, Kind::Int32),
    (1047, 1047, Kind::String),
    (1048, 1048, Kind::Int32),
    (1049, 1050, Kind::String),
    (1051, 1053, Kind::Int32),
    (1054, 1055, Kind::String),
    (1059, 1062, Kind::String),
    (1064, 1067, Kind::String),
    (1068, 1069, Kind::Int32),
    (1079, 1079, Kind::String),
    (1080, 1080, Kind::Int32),
    (1081, 1082, Kind::String),
    (1085, 1092, Kind::String),
    (1094, 1094, Kind::String),
    (1095, 1096, Kind::Int32),
    (1097, 1099, Kind::String),
    (1106, 1106, Kind::Int32),
    (1112, 1112, Kind::Int32),
    (1113, 1113, Kind::String),
    (1114, 1114, Kind::Int32),
    (1115, 1115, Kind::String),
    (1116, 1116, Kind::Int32),
    (1117, 1118, Kind::String),
    (1119, 1119, Kind::Int32),
    (1120, 1126, Kind::String),
    (1127, 1129, Kind::Int32),
    (1132, 1133, Kind::String),
    (1134, 1134, Kind::Int32),
    (1135, 1135, Kind::String),
    (1140, 1141, Kind::Int32),
    (1142, 1142, Kind::String),
    (1143, 1145, Kind::Int32),
    (1146, 1146, Kind::Binary),
    (1147, 1157, Kind::String),
    (1158, 1158, Kind::Int32),
    (1159, 1160, Kind::String),
    (1161, 1161, Kind::Int32),
    (1195, 1195, Kind::Int32),
    (1196, 1196, Kind::String),
    (5000, 5002, Kind::String),
    (5005, 5007, Kind::String),
    (5008, 5009, Kind::Int64),
    (5010, 5010, Kind::String),
    (5011, 5011, Kind::Int32),
    (5012, 5016, Kind::String),
    (5017, 5027, Kind::Int32),
    (5030, 5031, Kind::String),
    (5032, 5033, Kind::Int32),
    (5034, 5036, Kind::String),
    (5037, 5037, Kind::Int32),
    (5040, 5044, Kind::String),
    (5045, 5045, Kind::Int32),
    (5046, 5047, Kind::String),
    (5048, 5048, Kind::Int32),
    (5049, 5050, Kind::String),
    (5051, 5051, Kind::Int32),
    (5052, 5053, Kind::String),
    (5054, 5054, Kind::Int32),
    (5055, 5056, Kind::String),
    (5057, 5057, Kind::Int32),
    (5058, 5062, Kind::String),
    (5066, 5067, Kind::String),
    (5068, 5068, Kind::Int32),
    (5069, 5069, Kind::String),
    (5070, 5070, Kind::Int32),
    (5071, 5071, Kind::String),
    (5072, 5072, Kind::Int32),
    (5076, 5077, Kind::String),
    (5078, 5078, Kind::Int32),
    (5079, 5079, Kind::String),
    (5080, 5080, Kind::Int32),
    (5081, 5081, Kind::String),
    (5082, 5082, Kind::Int32),
    (5084, 5085, Kind::Int32),
    (5086, 5090, Kind::String),
    (5091, 5091, Kind::Int32),
    (5092, 5092, Kind::String),
    (5093, 5093, Kind::Int32),
    (5096, 5101, Kind::String),
];

/// Whether rpm reads a main header in which this tag has this type.
pub(super) fn fits(tag: u32, kind: Kind) -> bool {
    let at = TYPES.partition_point(|(_, last, _)| *last < tag);
    let wanted = TYPES.get(at).filter(|(first, ..)| *first <= tag).map(|(_, _, kind)| *kind);
    wanted.is_none_or(|wanted| wanted == kind || (is_text(wanted) && is_text(kind)))
}

fn is_text(kind: Kind) -> bool {
    kind.element_bytes().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_in_order_and_none_is_there_twice() {
        assert!(TYPES.iter().all(|(first, last, _)| first <= last));
        assert!(TYPES.is_sorted_by(|one, other| one.1 < other.0));
    }

    #[test]
    fn texts_are_one_type_and_unknown_tags_have_any() {
        assert!(fits(1000, Kind::String) && fits(1000, Kind::I18nString) && !fits(1000, Kind::Int32));
        assert!(fits(1003, Kind::Int32) && !fits(1003, Kind::Int64) && !fits(1003, Kind::String));
        assert!(fits(0x7fff_0000, Kind::Binary) && fits(999, Kind::Int8));
    }
}
