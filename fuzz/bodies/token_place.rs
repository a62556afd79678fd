//! Where on a token a key is, in the opened bytes of a seal: the first byte says whether the rest is such bytes, or a
//! place that is written, and perhaps changed. One encoding for one place; what was changed is another place, or none.

use sealwright_signer::token_fuzz::Place;

use crate::choices::Choices;

pub(crate) fn run(data: &[u8]) {
    let mut input = Choices::new(data);
    if !input.flag() {
        read(input.rest());
    } else {
        written(&mut input);
    }
}

fn read(bytes: &[u8]) {
    let Some(place) = Place::read(bytes) else { return };
    assert_eq!(place.encode().as_deref(), Some(bytes), "two encodings of one place");
    assert!((1..=64).contains(&place.token.len()), "a token without a name");
    assert!(place.id.len() <= 255 && place.label.len() <= 255);
    assert!(!place.id.is_empty() || !place.label.is_empty(), "any key of the token");
}

fn written(input: &mut Choices<'_>) {
    let token = String::from_utf8_lossy(&input.bytes(4)).trim_end_matches('\0').to_owned();
    let (id, label) = (vec![input.byte(); input.number().into()], vec![input.byte(); input.number().into()]);
    let place = Place { token, id, label, numbers: [input.byte(); 32] };
    let fits = |field: &[u8]| field.len() <= 255;
    let is_named = !(place.id.is_empty() && place.label.is_empty());
    let is_token = !place.token.is_empty()
        && place.token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        && place.token.bytes().any(|byte| byte != b'.');
    let is_good = is_token && is_named && fits(&place.id) && fits(&place.label);
    let Some(bytes) = place.encode() else {
        assert!(!is_good, "a place is not written");
        return;
    };
    assert!(is_good, "a place is written that is none");
    assert_eq!(Place::read(&bytes).as_ref(), Some(&place), "writing and reading changed the place");
    let mut changed = bytes.clone();
    let at = usize::from(input.number()) % bytes.len();
    changed[at] ^= input.byte();
    changed.truncate(bytes.len() - usize::from(input.byte()) % bytes.len());
    changed.extend(vec![input.byte(); input.byte().into()]);
    if changed != bytes {
        assert_ne!(Place::read(&changed), Some(place));
    }
    read(&changed);
}
