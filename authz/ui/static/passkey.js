// Passkeys: what the service asks the browser for, and what the browser answers (Web Authentication Level 3).

function bytesOf(text) {
  const plain = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(plain, (character) => character.charCodeAt(0));
}

function textOf(buffer) {
  const plain = String.fromCharCode(...new Uint8Array(buffer));
  return btoa(plain).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function described(credentials) {
  return (credentials ?? []).map((one) => ({ ...one, id: bytesOf(one.id) }));
}

async function post(path, body) {
  const answer = await fetch(path, {
    method: "POST",
    credentials: "same-origin",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const document = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(document.message ?? "the service did not answer, try again");
  return document;
}

async function create(options) {
  const made = await navigator.credentials.create({
    publicKey: {
      ...options,
      challenge: bytesOf(options.challenge),
      user: { ...options.user, id: bytesOf(options.user.id) },
      excludeCredentials: described(options.excludeCredentials),
    },
  });
  return {
    id: made.id,
    rawId: textOf(made.rawId),
    type: made.type,
    response: {
      clientDataJSON: textOf(made.response.clientDataJSON),
      attestationObject: textOf(made.response.attestationObject),
    },
  };
}

async function get(options) {
  const found = await navigator.credentials.get({
    publicKey: {
      ...options,
      challenge: bytesOf(options.challenge),
      allowCredentials: described(options.allowCredentials),
    },
  });
  const { clientDataJSON, authenticatorData, signature, userHandle } = found.response;
  return {
    id: found.id,
    rawId: textOf(found.rawId),
    type: found.type,
    response: {
      clientDataJSON: textOf(clientDataJSON),
      authenticatorData: textOf(authenticatorData),
      signature: textOf(signature),
      ...(userHandle ? { userHandle: textOf(userHandle) } : {}),
    },
  };
}

function told(form, error) {
  let place = form.querySelector("[data-fault]");
  if (place === null) {
    place = document.createElement("p");
    place.setAttribute("role", "alert");
    place.className = "alert";
    place.dataset.fault = "";
    form.append(place);
  }
  // The browser's own words for a ceremony that somebody broke off are about its API.
  const aborted = error.name === "NotAllowedError" || error.name === "AbortError";
  const known = error.name === "InvalidStateError" ? "you have a passkey on that device already" : error.message;
  const text = aborted ? "no passkey was used, try again" : known;
  place.textContent = text.charAt(0).toUpperCase() + text.slice(1);
  place.hidden = false;
}

function onSubmit(selector, ceremony) {
  const form = document.querySelector(selector);
  if (form === null) return;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = form.querySelector("button");
    button.disabled = true;
    try {
      const { location: to } = await ceremony(Object.fromEntries(new FormData(form)));
      window.location.assign(to);
    } catch (error) {
      told(form, error);
      button.disabled = false;
    }
  });
  if (window.PublicKeyCredential === undefined) {
    told(form, new Error("this browser has no passkeys here"));
    return;
  }
  for (const button of form.querySelectorAll("[data-needs-script]")) button.disabled = false;
}

onSubmit("[data-passkey-sign-in]", async (fields) => {
  const credential = await get(await post("/ui/passkeys/sign-in/options", { csrf_token: fields.csrf_token }));
  return post("/ui/passkeys/sign-in", { ...fields, credential });
});

onSubmit("[data-passkey-invitation]", async (fields) => {
  const asked = { csrf_token: fields.csrf_token, token: fields.token };
  const credential = await create(await post("/ui/passkeys/invitation/options", asked));
  return post("/ui/passkeys/invitation", { ...fields, credential });
});

onSubmit("[data-passkey-register]", async (fields) => {
  const credential = await create(await post("/ui/passkeys/register/options", { csrf_token: fields.csrf_token }));
  return post("/ui/passkeys/register", { ...fields, credential });
});

// A yes that a rule wants a passkey for. The form names its request in `data-passkey`; what the passkey signs
// goes with it as the field `assertion`.
export function approveWith(form) {
  form.addEventListener("submit", async (event) => {
    const submitter = event.submitter;
    if (submitter === null || submitter.value !== "approve") return;
    if (form.dataset.signed !== undefined) return;
    event.preventDefault();
    // Before others that hold the form back once it was sent: it is not sent yet.
    event.stopImmediatePropagation();
    submitter.disabled = true;
    try {
      const options = await post("/ui/passkeys/approval/options", {
        csrf_token: form.elements.csrf_token.value,
        approval_id: form.dataset.passkey,
      });
      const assertion = { ...(await get(options)), nonce: options.nonce };
      let field = form.elements.assertion;
      if (field === undefined) {
        field = document.createElement("input");
        field.type = "hidden";
        field.name = "assertion";
        form.append(field);
      }
      field.value = JSON.stringify(assertion);
      form.dataset.signed = "";
      submitter.disabled = false;
      form.requestSubmit(submitter);
    } catch (error) {
      told(form, error);
      submitter.disabled = false;
    }
  }, { capture: true });
}
