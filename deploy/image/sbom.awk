# SPDX-License-Identifier: MIT
# Lines of `sbom --list` -> an SPDX document. Variables: name, version, distribution, digest, created.

function quoted(text) {
    gsub(/["\\]/, "\\\\&", text)
    return "\"" text "\""
}

# What has a meaning in a package URL.
function escaped(text) {
    gsub(/%/, "%25", text)
    gsub(/\+/, "%2B", text)
    gsub(/:/, "%3A", text)
    gsub(/~/, "%7E", text)
    return text
}

function package(id, title, release, supplier, licence, more) {
    printf "%s{\"SPDXID\":%s,\"name\":%s,\"versionInfo\":%s,\"supplier\":%s,\"downloadLocation\":\"NOASSERTION\"," \
        "\"filesAnalyzed\":false,\"licenseConcluded\":\"NOASSERTION\",\"licenseDeclared\":%s," \
        "\"copyrightText\":\"NOASSERTION\"%s}", separator, quoted(id), quoted(title), quoted(release), quoted(supplier),
        quoted(licence), more
    separator = ",\n"
}

function relation(from, type, to) {
    return "{\"spdxElementId\":" quoted(from) ",\"relationshipType\":\"" type "\",\"relatedSpdxElement\":" quoted(to) "}"
}

BEGIN {
    print "{\"spdxVersion\":\"SPDX-2.3\",\"dataLicense\":\"CC0-1.0\",\"SPDXID\":\"SPDXRef-DOCUMENT\","
    print "\"name\":" quoted(name "-" version) ","
    print "\"documentNamespace\":" quoted("https://spdx.org/spdxdocs/" name "-" version "-" substr(digest, 1, 32)) ","
    print "\"creationInfo\":{\"created\":\"" created "\",\"creators\":[\"Tool: tombola-sbom-" version "\"]},"
    print "\"packages\":["
    package("SPDXRef-Image", name, version, "NOASSERTION", "NOASSERTION", ",\"primaryPackagePurpose\":\"CONTAINER\"")
    package("SPDXRef-Tombola", "tombola", version, "NOASSERTION", "MIT", "")
    relations = relation("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-Image") ",\n" \
        relation("SPDXRef-Image", "CONTAINS", "SPDXRef-Tombola")
    split(distribution, system_name, "-")
}

{
    # Two names may differ in characters that an identifier cannot have.
    id = "SPDXRef-" NR "-" $1
    gsub(/[^A-Za-z0-9.-]/, "-", id)
    supplier = $6
    sub(/ *<.*/, "", supplier)
    url = "pkg:deb/" system_name[1] "/" escaped($1) "@" escaped($2) "?arch=" $3 "&distro=" distribution
    package(id, $1, $2, "Organization: " supplier, "NOASSERTION", ",\"sourceInfo\":" quoted("built from: " $4 " " $5) \
        ",\"externalRefs\":[{\"referenceCategory\":\"PACKAGE-MANAGER\",\"referenceType\":\"purl\"," \
        "\"referenceLocator\":" quoted(url) "}]")
    relations = relations ",\n" relation("SPDXRef-Image", "CONTAINS", id)
}

END { print "\n],\n\"relationships\":[\n" relations "\n]}" }
